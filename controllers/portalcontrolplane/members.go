// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/ownerref"
)

// members are the objects of a Cluster that ask for workers. A pass reads them once from the cache, and once more past it before it
// changes the workers.
type members struct {
	deployments []clusterv1.MachineDeployment
	sets        []clusterv1.MachineSet
	machines    []clusterv1.Machine // those that are backed by PortalMachines
	pools       []clusterv1.MachinePool
	pool        *pool // the pool that gets nodes, or nil
}

func readMembers(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) (members, error) {
	of := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	deployments, sets, machines, pools := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}
	for _, list := range []client.ObjectList{deployments, sets, machines, pools} {
		if err := reader.List(ctx, list, of...); err != nil {
			return members{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	ours := slices.DeleteFunc(machines.Items, func(m clusterv1.Machine) bool { return m.Spec.InfrastructureRef.Kind != machineKind })
	pool, err := readPool(ctx, reader, pools.Items)
	return members{deployments.Items, sets.Items, ours, pools.Items, pool}, err
}

// correctMembers corrects the owner references of MachineSets and Machines that have an earlier UID of a present object. Core
// corrects the references of all other objects. It ignores a MachineSet or Machine whose owner has another UID, and creates a
// second one. Objects that are being deleted stay as they are.
func (r *Reconciler) correctMembers(ctx context.Context, cluster *clusterv1.Cluster, of members) error {
	var all []error
	for i := range of.sets {
		if set := &of.sets[i]; set.Spec.Template.Spec.InfrastructureRef.Kind == templateKind {
			all = append(all, r.correctMember(ctx, set, ownerref.Cluster, cluster))
			for j := range of.deployments {
				all = append(all, r.correctMember(ctx, set, ownerref.MachineDeployment, &of.deployments[j]))
			}
		}
	}
	for i := range of.machines {
		machine := &of.machines[i]
		all = append(all, r.correctMember(ctx, machine, ownerref.Cluster, cluster))
		for j := range of.sets {
			all = append(all, r.correctMember(ctx, machine, ownerref.MachineSet, &of.sets[j]))
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
