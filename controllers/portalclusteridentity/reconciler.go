// SPDX-License-Identifier: Apache-2.0

// Package portalclusteridentity reconciles PortalClusterIdentities: it reports whether their Secret is complete, and removes
// their finalizer when no PortalCluster uses them any more. It never calls the portal. PortalClusters resolve and hold their
// identities themselves (package identity).
//
// The finalizer is removed when the last PortalCluster is gone, not when the identity is deleted. So `clusterctl move`, which
// removes PortalClusters without their controllers, leaves no finalizer behind.
package portalclusteridentity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusteridentities,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusteridentities/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusters,verbs=get;list;watch

// Reconciler reconciles PortalClusterIdentities. --watch-filter does not apply to them, since PortalClusters of every manager may use them.
type Reconciler struct {
	Client     client.Client
	Identities *identity.Resolver
	Recorder   events.EventRecorder
}

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalclusteridentity")
	return capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalClusterIdentity{}).
		WithOptions(options).
		Watches(&infrav1.PortalCluster{}, handler.EnqueueRequestsFromMapFunc(fromPortalCluster)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.fromSecret)).
		Complete(ctx, r)
}

// fromPortalCluster wakes the identity that the PortalCluster uses.
func fromPortalCluster(_ context.Context, obj client.Object) (requests []reconcile.Request) {
	for _, name := range identity.IndexShared(obj) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

// fromSecret wakes the identities that the Secret belongs to.
func (r *Reconciler) fromSecret(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	shared, err := r.Identities.IdentitiesOf(ctx, obj)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalClusterIdentities for a watch event")
		return nil
	}
	for i := range shared {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&shared[i])})
	}
	return requests
}

// scope is one pass over one PortalClusterIdentity.
type scope struct {
	identity        *infrav1.PortalClusterIdentity
	ready, deleting outcome.Outcome
}

// Reconcile checks one PortalClusterIdentity.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, reterr error) {
	s := &scope{identity: &infrav1.PortalClusterIdentity{}}
	if err := r.Client.Get(ctx, req.NamespacedName, s.identity); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := s.identity.Status.DeepCopy()
	defer func() {
		if err := r.patchStatus(ctx, s, before); err != nil && reterr == nil {
			reterr = err
		}
	}()
	users, err := r.Identities.RemoveUnusedFinalizers(ctx, s.identity)
	if o := outcome.Fail(err); err != nil {
		s.ready, s.deleting = outcome.RetryAfter(0), outcome.RetryAfter(0)
		return outcome.Result(o), outcome.FirstError(o)
	}
	s.ready = r.Identities.Check(ctx, s.identity)
	if users > 0 {
		s.deleting = outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "waiting for %s. The identity is needed to delete resources at the portal. Delete "+
			"the Clusters", outcome.Count(users, "PortalCluster"))
	}
	return outcome.Result(s.ready), outcome.FirstError(s.ready)
}

// patchStatus writes what the pass found, if it changed.
func (r *Reconciler) patchStatus(ctx context.Context, s *scope, before *infrav1.PortalClusterIdentityStatus) error {
	s.identity.Status = *before.DeepCopy()
	s.updateStatus()
	if err := outcome.PatchStatus(ctx, r.Client, s.identity, &s.identity.Status, *before); err != nil {
		return err
	}
	outcome.WarnStalled(r.Recorder, s.identity, before.Conditions, map[string]outcome.Outcome{infrav1.ReadyCondition: s.ready})
	return nil
}

// updateStatus turns what the pass found into status. It is the only place that does.
func (s *scope) updateStatus() {
	outcome.Report(s.identity, infrav1.ReadyCondition, s.ready)
	if s.ready.Kind != outcome.Retry {
		s.identity.Status.ObservedGeneration = s.identity.Generation
	}
	switch {
	case s.identity.DeletionTimestamp.IsZero():
		outcome.Set(s.identity, clusterv1.DeletingCondition, metav1.ConditionFalse, outcome.Outcome{Reason: clusterv1.NotDeletingReason})
	case s.deleting.Kind == outcome.Wait:
		outcome.Set(s.identity, clusterv1.DeletingCondition, metav1.ConditionTrue, s.deleting)
	}
}
