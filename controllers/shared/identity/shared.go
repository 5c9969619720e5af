// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

const (
	// SharedIndex finds PortalClusters by the PortalClusterIdentity that they use.
	SharedIndex = "portalClusterIdentity"
	// ownIndex finds PortalClusters by the Secret of their namespace that they use.
	ownIndex = "identitySecret"
)

// IndexShared returns the name of the PortalClusterIdentity that the PortalCluster uses, if any.
func IndexShared(obj client.Object) []string {
	c, ok := obj.(*infrav1.PortalCluster)
	if !ok || c.Spec.IdentityRef.Kind != infrav1.PortalIdentityShared {
		return nil
	}
	return []string{c.Spec.IdentityRef.Name}
}

// indexOwn returns the name of the Secret of its namespace that the PortalCluster uses, if any.
func indexOwn(obj client.Object) []string {
	c, ok := obj.(*infrav1.PortalCluster)
	if !ok || c.Spec.IdentityRef.Kind == infrav1.PortalIdentityShared {
		return nil
	}
	return []string{c.Spec.IdentityRef.Name}
}

// SetupWithManager adds to the manager's cache what the Resolver looks up.
func (r *Resolver) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	for index, extract := range map[string]client.IndexerFunc{SharedIndex: IndexShared, ownIndex: indexOwn} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.PortalCluster{}, index, extract); err != nil {
			return fmt.Errorf("index PortalClusters by %s: %w", index, err)
		}
	}
	return nil
}

// Users returns the PortalClusters that use the Secret or PortalClusterIdentity. They belong to the cache and must not be
// changed.
func (r *Resolver) Users(ctx context.Context, obj client.Object) ([]infrav1.PortalCluster, error) {
	if shared, ok := obj.(*infrav1.PortalClusterIdentity); ok {
		return r.sharedUsers(ctx, shared.Name)
	}
	own := &infrav1.PortalClusterList{}
	if err := r.Client.List(ctx, own, client.InNamespace(obj.GetNamespace()), client.MatchingFields{ownIndex: obj.GetName()},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	users := own.Items
	identities, err := r.IdentitiesOf(ctx, obj)
	if err != nil {
		return nil, err
	}
	for _, shared := range identities {
		more, err := r.sharedUsers(ctx, shared.Name)
		if err != nil {
			return nil, err
		}
		users = append(users, more...)
	}
	return users, nil
}

// IdentitiesOf returns the PortalClusterIdentities that the Secret belongs to.
func (r *Resolver) IdentitiesOf(ctx context.Context, secret client.Object) (of []infrav1.PortalClusterIdentity, err error) {
	if r.Namespace == "" || secret.GetNamespace() != r.Namespace {
		return nil, nil
	}
	all := &infrav1.PortalClusterIdentityList{}
	if err := r.Client.List(ctx, all); err != nil {
		return nil, err
	}
	for _, shared := range all.Items {
		if shared.Spec.SecretRef.Name == secret.GetName() {
			of = append(of, shared)
		}
	}
	return of, nil
}

// sharedUsers returns the PortalClusters that use the PortalClusterIdentity. They belong to the cache and must not be changed.
func (r *Resolver) sharedUsers(ctx context.Context, name string) ([]infrav1.PortalCluster, error) {
	users := &infrav1.PortalClusterList{}
	err := r.Client.List(ctx, users, client.MatchingFields{SharedIndex: name}, client.UnsafeDisableDeepCopy)
	return users.Items, err
}

// Check reports whether the PortalClusterIdentity can be used. Its messages are for the identity's administrator.
func (r *Resolver) Check(ctx context.Context, shared *infrav1.PortalClusterIdentity) outcome.Outcome {
	if allowed := shared.Spec.AllowedNamespaces; allowed != nil && allowed.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(allowed.Selector); err != nil {
			return outcome.StallFor(0, infrav1.IdentityInvalidReason, "spec.allowedNamespaces.selector is invalid: %v. Correct it", err)
		}
	}
	secret, problem := r.sharedSecret(ctx, shared)
	if !problem.IsDone() {
		return problem
	}
	if _, problem := r.client(r.Namespace, secret); !problem.IsDone() {
		return problem
	}
	return outcome.Outcome{}
}

// ensureSharedFinalizer adds a finalizer to the PortalClusterIdentity. Its Secret gets none, which would keep the manager's namespace from being
// deleted when the provider is uninstalled: only administrators can delete the Secret. The Secret gets no move label either, because
// `clusterctl move` would take it away from the namespaces that stay.
func (r *Resolver) ensureSharedFinalizer(ctx context.Context, from source) outcome.Outcome {
	shared := from.shared
	if controllerutil.ContainsFinalizer(shared, infrav1.IdentityFinalizer) {
		return outcome.Outcome{}
	}
	if !shared.DeletionTimestamp.IsZero() { // it cannot be held any more
		return from.conceal(outcome.StallFor(0, infrav1.IdentityInvalidReason, ""))
	}
	if err := r.writer().Change(ctx, shared, func() { controllerutil.AddFinalizer(shared, infrav1.IdentityFinalizer) }); err != nil {
		return outcome.Fail(fmt.Errorf("hold PortalClusterIdentity %q: %w", shared.Name, err))
	}
	return outcome.Outcome{}
}

// RemoveUnusedFinalizers removes our finalizer from the PortalClusterIdentity if no PortalCluster uses it. It returns how many
// do.
func (r *Resolver) RemoveUnusedFinalizers(ctx context.Context, shared *infrav1.PortalClusterIdentity) (users int, err error) {
	cached, err := r.sharedUsers(ctx, shared.Name)
	if err != nil || len(cached) > 0 || !controllerutil.ContainsFinalizer(shared, infrav1.IdentityFinalizer) {
		return len(cached), err
	}
	all := &infrav1.PortalClusterList{} // of all namespaces, including those that another manager watches
	if err := r.Live.List(ctx, all); err != nil {
		return 0, fmt.Errorf("list the PortalClusters of PortalClusterIdentity %q: %w", shared.Name, err)
	}
	for i := range all.Items {
		if slices.Contains(IndexShared(&all.Items[i]), shared.Name) {
			users++
		}
	}
	if users > 0 {
		return users, nil
	}
	r.Accounts.Drop(accountName("", infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}))
	return 0, client.IgnoreNotFound(r.writer().Change(ctx, shared, func() { controllerutil.RemoveFinalizer(shared, infrav1.IdentityFinalizer) }))
}

func (r *Resolver) writer() persist.Writer { return persist.Writer{Client: r.Client} }
