// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/ownerref"
)

// correctMembers corrects the owner references of MachineSets and Machines that have an earlier UID of a present object. Core
// corrects the references of all other objects. It ignores a MachineSet or Machine whose owner has another UID, and creates a
// second one. Objects that are being deleted stay as they are.
func (r *Reconciler) correctMembers(ctx context.Context, s *scope) error {
	deployments, sets, machines := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{deployments, sets, machines} {
		if err := r.Client.List(ctx, list, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	var all []error
	for i := range sets.Items {
		if set := &sets.Items[i]; set.Spec.Template.Spec.InfrastructureRef.Kind == templateKind {
			all = append(all, r.correctMember(ctx, set, ownerref.Cluster, s.cluster))
			for j := range deployments.Items {
				all = append(all, r.correctMember(ctx, set, ownerref.MachineDeployment, &deployments.Items[j]))
			}
		}
	}
	for i := range machines.Items {
		if machine := &machines.Items[i]; machine.Spec.InfrastructureRef.Kind == machineKind {
			all = append(all, r.correctMember(ctx, machine, ownerref.Cluster, s.cluster))
			for j := range sets.Items {
				all = append(all, r.correctMember(ctx, machine, ownerref.MachineSet, &sets.Items[j]))
			}
		}
	}
	return errors.Join(all...)
}

// correctMember corrects the references of the member to this owner, if they are stale.
func (r *Reconciler) correctMember(ctx context.Context, member client.Object, kind string, owner client.Object) error {
	stale := false
	for _, reference := range ownerref.To(kind, member) {
		stale = stale || reference.Name == owner.GetName() && reference.UID != owner.GetUID()
	}
	if !stale || !member.GetDeletionTimestamp().IsZero() {
		return nil
	}
	live, before := owner.DeepCopyObject().(client.Object), member.DeepCopyObject().(client.Object) //nolint:forcetypeassert // they are
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(owner), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	ownerref.Correct(kind, member, live)
	return client.IgnoreNotFound(r.Client.Patch(ctx, member, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}
