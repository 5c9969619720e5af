// SPDX-License-Identifier: Apache-2.0

// Package identity turns an identity Secret into a client of the portal, and keeps the Secret from disappearing while
// it is needed to delete what was created with it.
package identity

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/capportal/cluster-api-provider-portal/controllers/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// Resolver makes portal clients from identity Secrets.
type Resolver struct {
	// Client must read Secrets live: a rotated password counts at once.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	Pool *cloud.Pool
	// Hosts decides which portals identities may name. Nil: all.
	Hosts *cloud.Hosts
	// UserAgent is sent with every request to the portal.
	UserAgent string
	// Observe is told of every request, and ObserveLogin of every login, for metrics. Optional.
	Observe      func(cloud.Call)
	ObserveLogin func(error)
	// Accounts are the portal accounts in use.
	Accounts metrics.Accounts
}

// Identity is a portal client and the version of the Secret that it was made from.
type Identity struct {
	Portal  *cloud.Client
	Version string // changes when the Secret changes
	BaseURL string // of the portal
}

// Resolve returns the client for the Secret, or the outcome that says what is wrong with it.
func (r *Resolver) Resolve(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) (Identity, outcome.Outcome) {
	name := namespace + "/" + ref.Name
	secret, problem := r.secret(ctx, namespace, ref)
	if !problem.IsDone() {
		if problem.Kind == outcome.Stalled { // there is no such identity now
			r.Accounts.Drop(name)
		}
		return Identity{}, problem
	}
	portal, err := r.client(namespace, secret, cloud.Config{
		BaseURL:   string(secret.Data[infrav1.IdentityBaseURL]),
		Email:     string(secret.Data[infrav1.IdentityEmail]),
		Password:  string(secret.Data[infrav1.IdentityPassword]),
		CABundle:  secret.Data[infrav1.IdentityCABundle],
		TOTPSeed:  string(secret.Data[infrav1.IdentityTOTPSeed]),
		Hosts:     r.Hosts,
		UserAgent: r.UserAgent,
		Observe:   r.Observe, ObserveLogin: r.ObserveLogin,
	})
	if err != nil {
		r.Accounts.Drop(name)
		return Identity{}, outcome.StallFor(0, infrav1.IdentityInvalidReason, "correct Secret %q: %v", ref.Name, err)
	}
	r.Accounts.Use(name, string(secret.Data[infrav1.IdentityBaseURL]), portal.Governor)
	return Identity{Portal: portal, Version: string(secret.UID) + "/" + secret.ResourceVersion, BaseURL: string(secret.Data[infrav1.IdentityBaseURL])}, outcome.Outcome{}
}

func (r *Resolver) secret(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) (*corev1.Secret, outcome.Outcome) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, outcome.StallFor(0, infrav1.IdentityNotFoundReason,
			"create Secret %q with keys baseURL, email and password (optional: caBundle, totpSeed, account, requestsPerMinute)", ref.Name)
	}
	if err != nil {
		return nil, outcome.Fail(fmt.Errorf("read identity Secret %q: %w", ref.Name, err))
	}
	for _, key := range []string{infrav1.IdentityBaseURL, infrav1.IdentityEmail, infrav1.IdentityPassword} {
		if len(secret.Data[key]) == 0 {
			return nil, outcome.StallFor(0, infrav1.IdentityInvalidReason, "add key %q to Secret %q", key, ref.Name)
		}
	}
	return secret, outcome.Outcome{}
}

// Hold puts our finalizer on the Secret, and clusterctl's move label so that `clusterctl move` takes it along. A Secret
// that is on its way out without our finalizer cannot be held any more.
func (r *Resolver) Hold(ctx context.Context, user *infrav1.PortalCluster) outcome.Outcome {
	secret, problem := r.secret(ctx, user.Namespace, user.Spec.IdentityRef)
	if !problem.IsDone() {
		return problem
	}
	if !secret.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(secret, infrav1.IdentityFinalizer) {
		return outcome.StallFor(0, infrav1.IdentityNotFoundReason, "Secret %q is being deleted; create it anew", secret.Name)
	}
	err := operation.Writer{Client: r.Client}.Change(ctx, secret, func() {
		controllerutil.AddFinalizer(secret, infrav1.IdentityFinalizer)
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	})
	if err != nil {
		return outcome.Fail(fmt.Errorf("hold identity Secret %q: %w", secret.Name, err))
	}
	return outcome.Outcome{}
}

// Release takes our finalizer off the Secret unless another PortalCluster of the namespace still needs it. One that is
// being deleted needs it while its control plane is there; of two that go together, the second releases the Secret.
func (r *Resolver) Release(ctx context.Context, leaving *infrav1.PortalCluster) error {
	clusters := &infrav1.PortalClusterList{}
	if err := r.Live.List(ctx, clusters, client.InNamespace(leaving.Namespace)); err != nil {
		return err
	}
	for i := range clusters.Items {
		other := &clusters.Items[i]
		if other.UID == leaving.UID || other.Spec.IdentityRef != leaving.Spec.IdentityRef {
			continue
		}
		if needs, err := r.needs(ctx, other); err != nil || needs {
			return err
		}
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: leaving.Namespace, Name: leaving.Spec.IdentityRef.Name}
	r.Accounts.Drop(key.String())
	if err := r.Client.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(operation.Writer{Client: r.Client}.Change(ctx, secret, func() {
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
	controlPlanes := &infrav1.PortalControlPlaneList{}
	err := r.Live.List(ctx, controlPlanes, client.InNamespace(user.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
	return len(controlPlanes.Items) > 0, err
}

// EventFilter lets through what carries the label of --watch-filter, and Secrets whatever they carry: users label what is
// to be reconciled, not what it refers to. Whoever maps a Secret to objects asks Watched for each.
func EventFilter(scheme *runtime.Scheme, log logr.Logger, watchFilterValue string) predicate.Predicate {
	return predicate.Or[client.Object](
		predicates.ResourceHasFilterLabel(scheme, log, watchFilterValue),
		predicate.NewPredicateFuncs(isSecret),
	)
}

// Watched reports whether --watch-filter leaves the object to this manager.
func Watched(obj client.Object, watchFilterValue string) bool {
	return watchFilterValue == "" || labels.HasWatchLabel(obj, watchFilterValue)
}

func isSecret(obj client.Object) bool {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return true
	case *metav1.PartialObjectMetadata: // of a watch on metadata only
		return obj.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
	}
	return false
}
