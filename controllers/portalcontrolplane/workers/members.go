// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

const (
	machineKind = "PortalMachine"
	// TemplateKind is the kind of infrastructure that the MachineDeployments and MachineSets of a portal cluster name.
	TemplateKind = "PortalMachineTemplate"
)

// Members are the objects of a Cluster that ask for workers, and the PortalMachines of its Machines. A pass reads them once from the cache, and
// once more past it before it changes the workers.
type Members struct {
	deployments    []clusterv1.MachineDeployment
	sets           []clusterv1.MachineSet
	Machines       []clusterv1.Machine // those that are backed by PortalMachines
	portalMachines []infrav1.PortalMachine
	pools          []clusterv1.MachinePool
	pool           *pool // the pool that gets nodes, or nil
	ending         bool  // the namespace is being deleted. Only a live read shows it: namespaces are not watched
}

// ReadMembers reads the members of the Cluster.
func ReadMembers(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) (Members, error) {
	deployments, sets, machines, pools := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}
	ours := &infrav1.PortalMachineList{}
	of := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	for _, list := range []client.ObjectList{deployments, sets, machines, pools, ours} {
		if err := reader.List(ctx, list, of...); err != nil {
			return Members{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	backed := slices.DeleteFunc(machines.Items, func(m clusterv1.Machine) bool { return m.Spec.InfrastructureRef.Kind != machineKind })
	pool, err := readPool(ctx, reader, pools.Items, ours.Items)
	return Members{deployments: deployments.Items, sets: sets.Items, Machines: backed, portalMachines: ours.Items, pools: pools.Items, pool: pool}, err
}

// machine returns the Machine as it was read and the writes so far have changed it, or nil.
func (all Members) machine(name string) *clusterv1.Machine {
	if i := slices.IndexFunc(all.Machines, func(m clusterv1.Machine) bool { return m.Name == name }); i >= 0 {
		return &all.Machines[i]
	}
	return nil
}

// portalMachine returns the PortalMachine as it was read and the writes so far have changed it, or nil.
func (all Members) portalMachine(name string) *infrav1.PortalMachine {
	if i := slices.IndexFunc(all.portalMachines, func(c infrav1.PortalMachine) bool { return c.Name == name }); i >= 0 {
		return &all.portalMachines[i]
	}
	return nil
}

// CorrectMembers corrects the owner references of MachineSets and Machines that have an earlier UID of a present object. Core
// corrects the references of all other objects. It ignores a MachineSet or Machine whose owner has another UID, and creates a
// second one. Objects that are being deleted stay as they are.
func (k Keeper) CorrectMembers(ctx context.Context, cluster *clusterv1.Cluster, of Members) error {
	var all []error
	for i := range of.sets {
		if set := &of.sets[i]; set.Spec.Template.Spec.InfrastructureRef.Kind == TemplateKind {
			all = append(all, ownerref.CorrectStale(ctx, k.Client, k.Live, set, ownerref.Cluster, cluster))
			for j := range of.deployments {
				all = append(all, ownerref.CorrectStale(ctx, k.Client, k.Live, set, ownerref.MachineDeployment, &of.deployments[j]))
			}
		}
	}
	for i := range of.Machines {
		machine := &of.Machines[i]
		all = append(all, ownerref.CorrectStale(ctx, k.Client, k.Live, machine, ownerref.Cluster, cluster))
		for j := range of.sets {
			all = append(all, ownerref.CorrectStale(ctx, k.Client, k.Live, machine, ownerref.MachineSet, &of.sets[j]))
		}
	}
	return errors.Join(all...)
}
