// SPDX-License-Identifier: Apache-2.0

// Package identity turns an identity Secret into a client of the portal, and keeps the identity while it is needed to delete what
// was created with it. The identity is a Secret in the namespace of the PortalCluster, or a PortalClusterIdentity with a Secret in the
// manager's namespace (source.go), which is not kept. A PortalClusterIdentity says which namespaces may use it.
package identity

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
)

// Resolver makes portal clients from identity Secrets.
type Resolver struct {
	// Client must read Secrets live.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Secrets are those in use.
	Secrets *secretcache.Cache
	// Namespace holds the Secrets of PortalClusterIdentities. If it is empty, none of them is used, and the manager needs no right to them.
	Namespace string
	Pool      *cloud.Pool
	// Hosts decides which portals identities may name. If it is nil, all are allowed.
	Hosts *cloud.Hosts
	// Transport carries the requests to portals, as in cloud.Config. Optional.
	Transport http.RoundTripper
	// UserAgent is sent with every request to the portal.
	UserAgent string
	// Observe is called for every request, and ObserveLogin for every login, for metrics. Optional.
	Observe      func(cloud.Call)
	ObserveLogin func(error)
	// Accounts are the portal accounts in use.
	Accounts metrics.Accounts
}

// Identity is a portal client and the version of the Secret that it was made from.
type Identity struct {
	Portal  *cloud.Client
	Version string // changes when the Secret or the PortalClusterIdentity changes
	BaseURL string // of the portal
	// Shared is the name of the PortalClusterIdentity. It is empty for a Secret of the namespace's own.
	Shared string
	// CreationsHeld reports that nothing is created with it (infrav1.CreationsHeld).
	CreationsHeld bool
}

// Resolve returns the client for the identity, or an outcome with the problem.
func (r *Resolver) Resolve(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) (Identity, outcome.Outcome) {
	from, problem := r.read(ctx, namespace, ref)
	if from.withdrawn() {
		return Identity{}, notAllowed(ref.Name, namespace)
	}
	if !problem.IsDone() {
		if problem.Kind == outcome.Stalled { // the identity does not exist or cannot be used now
			r.Accounts.Drop(accountName(namespace, ref))
		}
		return Identity{}, from.conceal(problem)
	}
	portal, problem := r.client(namespace, from.secret)
	if !problem.IsDone() {
		r.Accounts.Drop(accountName(namespace, ref))
		return Identity{}, from.conceal(problem)
	}
	id := Identity{
		Portal: portal, Version: string(from.secret.UID) + "/" + from.secret.ResourceVersion, BaseURL: value(from.secret, infrav1.IdentityBaseURL),
		CreationsHeld: value(from.secret, infrav1.IdentityCreations) == infrav1.CreationsHeld,
	}
	if from.shared != nil {
		id.Shared = from.shared.Name
		id.Version += fmt.Sprintf("/%s/%d", from.shared.UID, from.shared.Generation)
	}
	r.Accounts.Use(accountName(namespace, ref), id.BaseURL, portal.Limiter)
	return id, outcome.Outcome{}
}

// client returns a client for the portal and user in the Secret, on behalf of a namespace.
func (r *Resolver) client(namespace string, secret *corev1.Secret) (*cloud.Client, outcome.Outcome) {
	config, err := r.config(namespace, secret)
	if err != nil {
		return nil, outcome.StallFor(0, infrav1.IdentityInvalidReason, "Secret %q cannot be used: %v. Correct it", secret.Name, err)
	}
	portal, err := r.Pool.Client(config)
	if err != nil {
		return nil, outcome.StallFor(0, infrav1.IdentityInvalidReason, "Secret %q cannot be used: %v. Correct it", secret.Name, err)
	}
	return portal, outcome.Outcome{}
}

// accountName names the identity in metrics. No namespace has upper case letters, so names of both kinds differ.
func accountName(namespace string, ref infrav1.PortalIdentityReference) string {
	if ref.Kind == infrav1.PortalIdentityShared {
		return string(ref.Kind) + "/" + ref.Name
	}
	return namespace + "/" + ref.Name
}

// EnsureFinalizer adds our finalizer to the PortalClusterIdentity, or to the Secret of the namespace's own. The Secret also gets
// clusterctl's move label, so `clusterctl move` takes it along. One that is already being deleted without our finalizer cannot be
// held any more.
func (r *Resolver) EnsureFinalizer(ctx context.Context, user *infrav1.PortalCluster) outcome.Outcome {
	from, problem := r.read(ctx, user.Namespace, user.Spec.IdentityRef)
	switch {
	case from.withdrawn():
		return notAllowed(user.Spec.IdentityRef.Name, user.Namespace)
	case !problem.IsDone():
		return from.conceal(problem)
	case from.shared != nil:
		return r.ensureSharedFinalizer(ctx, from)
	}
	if _, moves := from.secret.Labels[clusterctlv1.ClusterctlMoveLabel]; moves && controllerutil.ContainsFinalizer(from.secret, infrav1.IdentityFinalizer) {
		return outcome.Outcome{}
	}
	secret, problem := r.liveSecret(ctx, client.ObjectKeyFromObject(from.secret))
	if !problem.IsDone() {
		return problem
	}
	if !secret.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(secret, infrav1.IdentityFinalizer) {
		return outcome.StallFor(0, infrav1.IdentityInvalidReason, "Secret %q is being deleted. Create it again", secret.Name)
	}
	err := persist.Writer{Client: r.Client}.Change(ctx, secret, func() {
		controllerutil.AddFinalizer(secret, infrav1.IdentityFinalizer)
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	})
	if err != nil {
		return outcome.Fail(fmt.Errorf("hold identity Secret %q: %w", secret.Name, err))
	}
	return outcome.Outcome{}
}

// RemoveFinalizer removes our finalizer from the Secret unless another PortalCluster of the namespace still needs it. A
// PortalCluster that is being deleted needs it until its control plane is gone. If two go together, the second one releases the
// Secret. A PortalClusterIdentity is released by its own controller (RemoveUnusedFinalizers).
func (r *Resolver) RemoveFinalizer(ctx context.Context, leaving *infrav1.PortalCluster) error {
	if leaving.Spec.IdentityRef.Kind == infrav1.PortalIdentityShared {
		return nil
	}
	clusters := &infrav1.PortalClusterList{}
	if err := r.Live.List(ctx, clusters, client.InNamespace(leaving.Namespace)); err != nil {
		return err
	}
	for i := range clusters.Items {
		other := &clusters.Items[i]
		if other.UID == leaving.UID || other.Spec.IdentityRef != leaving.Spec.IdentityRef || !controllerutil.ContainsFinalizer(other, infrav1.ClusterFinalizer) {
			continue // without our finalizer it has created nothing, and its own deletion releases nothing
		}
		if needs, err := r.needs(ctx, other); err != nil || needs {
			return err
		}
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: leaving.Namespace, Name: leaving.Spec.IdentityRef.Name}
	r.Accounts.Drop(accountName(leaving.Namespace, leaving.Spec.IdentityRef))
	r.Secrets.Forget(key)
	if err := r.Client.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(persist.Writer{Client: r.Client}.Change(ctx, secret, func() {
		controllerutil.RemoveFinalizer(secret, infrav1.IdentityFinalizer)
	}))
}

func (r *Resolver) needs(ctx context.Context, user *infrav1.PortalCluster) (bool, error) {
	if user.DeletionTimestamp.IsZero() {
		return true, nil
	}
	name := user.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return false, nil
	}
	controlPlanes, err := ControlPlanes(ctx, r.Live, user.Namespace, name)
	return len(controlPlanes) > 0, err
}

// ControlPlanes returns the PortalControlPlanes with the name of the Cluster in their label. If their CustomResourceDefinition does not
// exist, there are none: when a provider is uninstalled, it can be deleted before that of the PortalClusters.
func ControlPlanes(ctx context.Context, reader client.Reader, namespace, cluster string) ([]infrav1.PortalControlPlane, error) {
	list := &infrav1.PortalControlPlaneList{}
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return list.Items, err
}

// EventFilter admits objects with the label of --watch-filter, and all Secrets and PortalClusterIdentities: users label the
// objects to reconcile, not the objects that these refer to. Callers that map one of them to objects must ask Watched for each.
func EventFilter(scheme *runtime.Scheme, log logr.Logger, watchFilterValue string) predicate.Predicate {
	return predicate.Or[client.Object](
		predicates.ResourceHasFilterLabel(scheme, log, watchFilterValue),
		predicate.NewPredicateFuncs(isIdentity),
	)
}

// Watched reports whether the object has the label of --watch-filter.
func Watched(obj client.Object, watchFilterValue string) bool {
	return watchFilterValue == "" || labels.HasWatchLabel(obj, watchFilterValue)
}

func isIdentity(obj client.Object) bool {
	switch obj := obj.(type) {
	case *corev1.Secret, *infrav1.PortalClusterIdentity:
		return true
	case *metav1.PartialObjectMetadata: // of a watch on metadata only
		return obj.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
	}
	return false
}
