// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusteridentities,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// namespacePoll is how often a namespace that is not allowed is checked again. Its labels may match now, and namespaces are not
// watched.
const namespacePoll = time.Minute

// source holds the objects that an identity reference names.
type source struct {
	secret *corev1.Secret
	// shared is nil for a Secret of the namespace's own.
	shared *infrav1.PortalClusterIdentity
	// allowed reports whether the namespace may use shared.
	allowed bool
}

// withdrawn reports whether the PortalClusterIdentity exists but the namespace may not use it.
func (from source) withdrawn() bool { return from.shared != nil && !from.allowed }

// read reads the objects that the reference names. Everything that an identity is made from is read here.
func (r *Resolver) read(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) (from source, problem outcome.Outcome) {
	if ref.Kind != infrav1.PortalIdentityShared {
		from.secret, problem = r.secret(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name})
		return from, problem
	}
	if r.Namespace == "" {
		return from, outcome.StallFor(0, infrav1.IdentityNotReadyReason, "PortalClusterIdentity %q is not used by this manager, which serves one "+
			"namespace only or does not know its own namespace. Name a Secret in a new PortalCluster", ref.Name)
	}
	shared := &infrav1.PortalClusterIdentity{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, shared)
	if apierrors.IsNotFound(err) {
		return from, notAllowed(ref.Name, namespace)
	}
	if err != nil {
		return from, outcome.Fail(fmt.Errorf("read PortalClusterIdentity %q: %w", ref.Name, err))
	}
	allowed, err := r.allows(ctx, shared.Spec.AllowedNamespaces, namespace)
	if err != nil {
		return from, outcome.Fail(err)
	}
	from.shared, from.allowed = shared, allowed
	from.secret, problem = r.sharedSecret(ctx, shared)
	return from, problem
}

// secret returns a Secret, which must not be changed, or an outcome with what it lacks. It is read only if it may have changed.
// The content of an incomplete Secret is not kept.
func (r *Resolver) secret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, outcome.Outcome) {
	secret, err := r.Secrets.Get(ctx, key)
	problem := checkComplete(key, secret, err)
	if !problem.IsDone() {
		r.Secrets.Forget(key)
		return nil, problem
	}
	return secret, problem
}

// liveSecret reads a Secret that the caller will change.
func (r *Resolver) liveSecret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, outcome.Outcome) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, key, secret)
	return secret, checkComplete(key, secret, err)
}

// checkComplete is done if the Secret was read and has all keys that an identity needs.
func checkComplete(key client.ObjectKey, secret *corev1.Secret, err error) outcome.Outcome {
	if apierrors.IsNotFound(err) {
		return outcome.StallFor(0, infrav1.IdentityInvalidReason,
			"Secret %q does not exist in namespace %q. Create it with keys baseURL, email and password (optional: caBundle, totpSeed, account, requestsPerMinute, creations)", key.Name, key.Namespace)
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("read identity Secret %q: %w", key.Name, err))
	}
	for _, name := range []string{infrav1.IdentityBaseURL, infrav1.IdentityEmail, infrav1.IdentityPassword} {
		if value(secret, name) == "" {
			return outcome.StallFor(0, infrav1.IdentityInvalidReason, "Secret %q in namespace %q has no key %q. Add it", key.Name, key.Namespace, name)
		}
	}
	return outcome.Outcome{}
}

// sharedSecret reads the Secret of a PortalClusterIdentity.
func (r *Resolver) sharedSecret(ctx context.Context, shared *infrav1.PortalClusterIdentity) (*corev1.Secret, outcome.Outcome) {
	return r.secret(ctx, client.ObjectKey{Namespace: r.Namespace, Name: shared.Spec.SecretRef.Name})
}

// allows reports whether the namespace is allowed. The namespace is read past the cache, so a label that was removed counts from
// the next pass on.
func (r *Resolver) allows(ctx context.Context, allowed *infrav1.PortalIdentityNamespaces, namespace string) (bool, error) {
	switch {
	case allowed == nil:
		return false, nil
	case slices.Contains(allowed.List, namespace):
		return true, nil
	case allowed.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
	switch {
	case err != nil:
		return false, nil //nolint:nilerr // condition Ready of the PortalClusterIdentity reports the problem
	case selector.Empty():
		return true, nil
	}
	found := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return false, fmt.Errorf("read Namespace %q: %w", namespace, err)
	}
	return selector.Matches(labels.Set(found.Labels)), nil
}

// notAllowed is the outcome for a namespace that may not use the PortalClusterIdentity. It is the same if the identity does not
// exist, so users cannot find out the names of other identities.
func notAllowed(name, namespace string) outcome.Outcome {
	return outcome.StallFor(namespacePoll, infrav1.IdentityNotAllowedReason, "PortalClusterIdentity %q does not exist, or does not allow namespace %q. Ask its "+
		"administrator to allow the namespace, or name another identity in a new PortalCluster", name, namespace)
}

// conceal returns the problem as users of the namespace may see it. It hides everything about the Secret of a
// PortalClusterIdentity.
func (from source) conceal(problem outcome.Outcome) outcome.Outcome {
	if from.shared == nil || problem.Kind != outcome.Stalled {
		return problem
	}
	return outcome.StallFor(0, infrav1.IdentityNotReadyReason, "PortalClusterIdentity %q cannot be used. Ask its administrator, who finds the cause in "+
		"its conditions", from.shared.Name)
}
