// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
)

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) (err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalcontrolplane")
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.PortalControlPlane{}, ownership.PortalClusterIndex, ownership.IndexPortalCluster); err != nil {
		return fmt.Errorf("index PortalControlPlanes by portal cluster: %w", err)
	}
	for _, kind := range []client.Object{&clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, templateIndex, indexTemplate); err != nil {
			return fmt.Errorf("index %T by PortalMachineTemplate: %w", kind, err)
		}
	}
	member := handler.EnqueueRequestsFromMapFunc(r.fromMember)
	builder := capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalControlPlane{}).
		WithOptions(options).
		WithEventFilter(identity.EventFilter(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&infrav1.PortalControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.fromControlPlane)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.fromCluster)).
		Watches(&infrav1.PortalCluster{}, member).
		Watches(&clusterv1.MachineDeployment{}, member).
		Watches(&clusterv1.MachineSet{}, member).
		Watches(&clusterv1.Machine{}, member).
		Watches(&clusterv1.MachinePool{}, member).
		Watches(&infrav1.PortalMachinePool{}, member).
		Watches(&infrav1.PortalMachine{}, member).
		Watches(&infrav1.PortalMachineTemplate{}, handler.EnqueueRequestsFromMapFunc(r.fromTemplate), templateChanged).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.fromSecret)).
		WatchesRawSource(r.Access.Workloads.Source()).
		WatchesRawSource(r.Woken)
	if r.Identities.Namespace != "" {
		builder = builder.Watches(&infrav1.PortalClusterIdentity{}, handler.EnqueueRequestsFromMapFunc(r.fromIdentity), predicate.GenerationChangedPredicate{})
	}
	r.controller, err = builder.Build(ctx, r)
	return err
}

// fromControlPlane wakes the other control planes that name the same portal cluster: one of them may own it now.
func (r *Reconciler) fromControlPlane(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	for _, key := range ownership.IndexPortalCluster(obj) {
		all := &infrav1.PortalControlPlaneList{}
		if err := r.Client.List(ctx, all, client.MatchingFields{ownership.PortalClusterIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalControlPlanes for a watch event")
			return nil
		}
		for i := range all.Items {
			if all.Items[i].UID != obj.GetUID() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
			}
		}
	}
	return requests
}

// fromCluster wakes the control plane that the Cluster refers to.
func (r *Reconciler) fromCluster(_ context.Context, obj client.Object) []reconcile.Request {
	cluster, ok := obj.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "PortalControlPlane" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}}}
}

// fromMember wakes the control plane of the Cluster that the object belongs to.
func (r *Reconciler) fromMember(ctx context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return r.fromCluster(ctx, cluster)
}

// fromSecret wakes the control plane whose kubeconfig is in the Secret, so a deleted one is fetched again at once. It also wakes
// the control planes whose PortalCluster uses the identity Secret, so corrected credentials count at once.
func (r *Reconciler) fromSecret(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	for _, request := range r.fromKubeconfig(ctx, obj) {
		controlPlane := &infrav1.PortalControlPlane{}
		if err := r.Client.Get(ctx, request.NamespacedName, controlPlane, client.UnsafeDisableDeepCopy); err == nil && identity.Watched(controlPlane, r.WatchFilterValue) {
			requests = append(requests, request)
		}
	}
	return append(requests, r.fromIdentity(ctx, obj)...)
}

// fromIdentity wakes the control planes whose PortalCluster uses the Secret or PortalClusterIdentity.
func (r *Reconciler) fromIdentity(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	users, err := r.Identities.Users(ctx, obj)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalClusters for a watch event")
		return nil
	}
	for i := range users {
		if identity.Watched(&users[i], r.WatchFilterValue) {
			requests = append(requests, r.fromMember(ctx, &users[i])...)
		}
	}
	return requests
}

// fromKubeconfig wakes the control plane of the Cluster in the Secret's name. A Secret that the provider did not write may have
// no labels.
func (r *Reconciler) fromKubeconfig(ctx context.Context, obj client.Object) []reconcile.Request {
	name, purpose, err := secret.ParseSecretName(obj.GetName())
	if err != nil || purpose != secret.Kubeconfig {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return r.fromCluster(ctx, cluster)
}

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
