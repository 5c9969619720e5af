// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// updateStatus sets the status of the pool, and returns the outcome of Ready. A pool that had all its nodes once stays provisioned, as the
// contract requires. replicas is the length of the list: if the two differed, core would write its annotations on the Nodes of the list in every
// pass. On a Node that a Machine has taken over, core's Machine controller would write them back each time.
func (s *scope) updateStatus() (ready outcome.Outcome) {
	outcome.ReportNotPaused(s.pool)
	o := s.ready()
	if o.IsDone() {
		s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = ptr.To(true), ptr.To(true)
	}
	s.pool.Status.Replicas = ptr.To(int32(len(s.pool.Spec.ProviderIDList)))
	outcome.Report(s.pool, infrav1.ReadyCondition, o)
	s.pool.Status.ObservedGeneration = s.pool.Generation
	outcome.ReportDeleting(s.pool, o.Message)
	return o
}

// ready compares the nodes of the pool with its replicas.
func (s *scope) ready() outcome.Outcome {
	if s.machinePool == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no MachinePool owns this object. Core sets the owner")
	}
	replicas, goes := int(ptr.Deref(s.machinePool.Spec.Replicas, 0)), !s.pool.DeletionTimestamp.IsZero()
	switch {
	case s.cluster == nil:
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "Cluster %s does not exist", s.machinePool.Spec.ClusterName)
	case s.chosen != s.machinePool.Name:
		return outcome.StallFor(0, infrav1.OwnedByAnotherReason, "MachinePool %s is the pool of the Cluster, which has one at most. The replicas of this one do "+
			"not count. Delete one of the two, or use a MachineDeployment", s.chosen)
	case goes && s.machinePool.DeletionTimestamp.IsZero():
		return outcome.StallFor(0, infrav1.WaitingForDependencyReason, "this object is being deleted, but MachinePool %s is not, so its nodes stay. "+
			"Delete the MachinePool", s.machinePool.Name)
	case goes:
		return outcome.WaitFor(0, infrav1.DeletingReason, "%s left. Nodes are drained before the portal removes them. See condition "+
			"WorkersReady of the PortalControlPlane for progress", outcome.Count(s.nodes, "node"))
	case s.nodes < replicas:
		return outcome.WaitFor(0, infrav1.ScalingUpReason, "the pool has %d of %d nodes. See condition WorkersReady of the PortalControlPlane for progress", s.nodes, replicas)
	case s.nodes > replicas:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "the pool has %s, but wants %d. Nodes are drained before the portal removes "+
			"them. See condition WorkersReady of the PortalControlPlane for progress", outcome.Count(s.nodes, "node"), replicas)
	}
	return outcome.Outcome{}
}
