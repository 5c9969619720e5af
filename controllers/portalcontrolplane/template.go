// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
)

// templateIndex finds the MachineDeployments and MachineSets whose workers use a PortalMachineTemplate.
const templateIndex = "portalMachineTemplate"

// templateChanged admits the changes of a template that a creation reads: that it exists, and its spec. Its status is written for
// every cluster that becomes ready, and wakes no control plane. A label may be the one of --watch-filter.
var templateChanged = predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})

// indexTemplate returns the name of the PortalMachineTemplate that the MachineDeployment or MachineSet names, if any.
func indexTemplate(obj client.Object) []string {
	var ref clusterv1.ContractVersionedObjectReference
	switch obj := obj.(type) {
	case *clusterv1.MachineDeployment:
		ref = obj.Spec.Template.Spec.InfrastructureRef
	case *clusterv1.MachineSet:
		ref = obj.Spec.Template.Spec.InfrastructureRef
	}
	if ref.Kind != workers.TemplateKind {
		return nil
	}
	return []string{ref.Name}
}

// fromTemplate wakes the control planes of the Clusters whose MachineDeployments and MachineSets name the template. The template itself does
// not name its Cluster until core adopts it.
func (r *Reconciler) fromTemplate(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	of := []client.ListOption{
		client.InNamespace(obj.GetNamespace()), client.MatchingFields{templateIndex: obj.GetName()}, client.UnsafeDisableDeepCopy,
	}
	deployments, sets := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}
	for _, list := range []client.ObjectList{deployments, sets} {
		if err := r.Client.List(ctx, list, of...); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list the users of a PortalMachineTemplate for a watch event")
			return nil
		}
	}
	for i := range deployments.Items {
		requests = append(requests, r.fromMember(ctx, &deployments.Items[i])...)
	}
	for i := range sets.Items {
		requests = append(requests, r.fromMember(ctx, &sets.Items[i])...)
	}
	return requests
}
