// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileCluster makes sure that the portal cluster exists.
func (r *Reconciler) reconcileCluster(ctx context.Context, s *scope) outcome.Outcome {
	return r.Lifecycle.Ensure(ctx, &s.Pass, func(ctx context.Context) (cloud.CreateClusterRequest, outcome.Outcome) {
		return r.createRequest(ctx, s)
	})
}

// gatherTime is how long the creation waits for the MachineDeployments of one manifest to arrive, so that the first size is their
// sum.
const gatherTime = 3 * time.Second

// createRequest collects the parameters of the portal cluster, except its name, or returns an outcome with what is missing.
func (r *Reconciler) createRequest(ctx context.Context, s *scope) (cloud.CreateClusterRequest, outcome.Outcome) {
	none := cloud.CreateClusterRequest{}
	desired := workers.DesiredBy(s.Cluster, s.members, s.Record)
	if o := s.awaitTopology(desired, r.memory(s).created.age(s.ControlPlane.CreationTimestamp.Time)); !o.IsDone() {
		return none, o
	}
	parameters, o := r.workers(s).Parameters(ctx, &s.Pass, s.members, desired)
	if !o.IsDone() {
		return none, o
	}
	if wait := gatherTime - r.memory(s).youngest.age(desired.Youngest); wait > 0 {
		return none, outcome.WaitFor(wait, infrav1.WaitingForObjectReason, "waiting a few seconds for all MachineDeployments to be created")
	}
	if o := workers.Manageable(&s.Pass, desired.FirstSize(), 0); !o.IsDone() {
		return none, o
	}
	version, o := r.Lifecycle.Offered(ctx, &s.Pass, s.running(), s.ControlPlane.Spec.Version)
	if !o.IsDone() {
		return none, o
	}
	return cloud.CreateClusterRequest{
		Description:         s.ControlPlane.Spec.Description,
		ZoneID:              s.PortalCluster.Spec.ZoneID,
		KubernetesVersionID: version.ID,
		ServiceOfferingID:   parameters.ServiceOfferingID,
		SSHKeyPair:          parameters.SSHKeyPair,
		Size:                desired.FirstSize(),
		ControlNodes:        int(ptr.Deref(s.ControlPlane.Spec.Replicas, 1)),
		NetworkID:           s.PortalCluster.Status.NetworkID,
		VPCID:               s.PortalCluster.Status.VPCID,
	}, outcome.Outcome{}
}
