// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools/status,verbs=patch

// pausedForUpgrade is the value of core's paused annotation on a MachinePool that the provider has paused. A user who pauses a MachinePool
// writes another value.
const pausedForUpgrade = "portal-upgrade"

// pausePool asks core to pause the MachinePool before an upgrade. It is done when core has paused it. Core looks for the Nodes of a pool by
// name. In an upgrade a new Node may come under such a name, with a providerID that the portal sets. The provider cannot list that
// ID before core sees the Node, and core would delete the Node object.
func (r *Reconciler) pausePool(ctx context.Context, s *scope, wanted string) outcome.Outcome {
	p := s.members.pool
	if p == nil || !s.portalSetsIDs(p) {
		return outcome.Outcome{}
	}
	mp := &clusterv1.MachinePool{} // read past the cache, which may still show the condition of an earlier pause
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(&p.machinePool), mp); err != nil {
		return outcome.Fail(fmt.Errorf("read MachinePool %s: %w", p.machinePool.Name, err))
	}
	if !mp.DeletionTimestamp.IsZero() {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s starts when MachinePool %s, which is being deleted, is gone. "+
			"If this takes long, look at its conditions", wanted, mp.Name)
	}
	asked := metav1.HasAnnotation(mp.ObjectMeta, clusterv1.PausedAnnotation)
	c := conditions.Get(mp, clusterv1.PausedCondition)
	if asked && (c == nil || c.Status == metav1.ConditionTrue) { // nil: core has never seen the MachinePool
		return outcome.Outcome{}
	}
	if !asked {
		pause := func() { metav1.SetMetaDataAnnotation(&mp.ObjectMeta, clusterv1.PausedAnnotation, pausedForUpgrade) }
		if err := r.writer().Change(ctx, mp, pause); err != nil {
			return outcome.Fail(fmt.Errorf("pause MachinePool %s: %w", mp.Name, err))
		}
	}
	p.machinePool, s.keepsPause = *mp, true
	return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s starts when Cluster API's core manager has paused MachinePool %s. "+
		"If this takes long, check that the core manager runs", wanted, mp.Name)
}

// resumePool ends the pause when no upgrade runs or is about to start, so that the MachinePool is not paused while the portal refuses an
// upgrade. At other times it removes the nodeRefs whose Node is gone, since core keeps them if the last Node of a pool goes.
func (r *Reconciler) resumePool(ctx context.Context, s *scope) error {
	p := s.desired.pool
	if p == nil {
		return nil
	}
	mp := &p.machinePool
	paused, upgrades := pausedByProvider(mp), s.keepsPause || s.Op().Is(operation.Upgrade)
	switch {
	case paused && upgrades:
		return nil
	case paused:
		return r.endPause(ctx, mp)
	case s.portalSetsIDs(p):
		return r.removeNodeRefs(ctx, mp, s.nodeGone)
	}
	return nil
}

// removeNodeRefs removes the nodeRefs that core must not go by.
func (r *Reconciler) removeNodeRefs(ctx context.Context, mp *clusterv1.MachinePool, which func(corev1.ObjectReference) bool) error {
	if !slices.ContainsFunc(mp.Status.NodeRefs, which) {
		return nil
	}
	before := mp.DeepCopy()
	mp.Status.NodeRefs = slices.DeleteFunc(mp.Status.NodeRefs, which)
	if err := r.Client.Status().Patch(ctx, mp, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove nodeRefs of MachinePool %s: %w", mp.Name, err)
	}
	return nil
}

// endPause lets core reconcile a MachinePool again that the provider has paused. Before that it removes all nodeRefs, so that core does not
// take a new Node for an earlier one of its name. Core sets them again.
func (r *Reconciler) endPause(ctx context.Context, mp *clusterv1.MachinePool) error {
	if !pausedByProvider(mp) {
		return nil
	}
	if err := r.removeNodeRefs(ctx, mp, func(corev1.ObjectReference) bool { return true }); err != nil {
		return err
	}
	if err := r.writer().Change(ctx, mp, func() { delete(mp.Annotations, clusterv1.PausedAnnotation) }); err != nil {
		return fmt.Errorf("resume MachinePool %s: %w", mp.Name, err)
	}
	return nil
}

// endPauses resumes the MachinePools of a Cluster that is being deleted. Core would not delete a paused one.
func (r *Reconciler) endPauses(ctx context.Context, of ...client.ListOption) error {
	pools := &clusterv1.MachinePoolList{}
	if err := r.Client.List(ctx, pools, of...); err != nil {
		return fmt.Errorf("list MachinePools: %w", err)
	}
	for i := range pools.Items {
		if err := r.endPause(ctx, &pools.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func pausedByProvider(mp *clusterv1.MachinePool) bool {
	return mp.Annotations[clusterv1.PausedAnnotation] == pausedForUpgrade
}

// nodeGone reports whether the Node of a nodeRef does not exist any more. Another Node may have its name.
func (s *scope) nodeGone(ref corev1.ObjectReference) bool {
	return !slices.Contains(s.nodeUIDs, ref.UID)
}

// portalSetsIDs reports whether a node of the cluster has, or one of the pool had, a providerID that the provider did not set.
func (s *scope) portalSetsIDs(p *pool) bool {
	ids := slices.Clone(p.machinePool.Spec.ProviderIDList)
	if p.infra != nil {
		ids = append(ids, p.infra.Spec.ProviderIDList...)
	}
	for _, n := range s.nodes {
		ids = append(ids, n.Spec.ProviderID)
	}
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && !claims.SetByProvider(s.ControlPlane.Spec.ClusterID, id) })
}
