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
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusteridentities,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// namespacePoll is how often a namespace that is not allowed is looked at again: its labels may match now, and namespaces are not watched.
const namespacePoll = time.Minute

// source is what an identity reference leads to.
type source struct {
	secret *corev1.Secret
	// shared is nil for a Secret of the namespace's own.
	shared *infrav1.PortalClusterIdentity
	// allowed reports whether the namespace may use shared.
	allowed bool
}

// withdrawn reports whether the PortalClusterIdentity exists, and the namespace may not use it.
func (from source) withdrawn() bool { return from.shared != nil && !from.allowed }

// read reads what the reference leads to. Everything that an identity is made from is read here.
func (r *Resolver) read(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) (from source, problem outcome.Outcome) {
	if ref.Kind != infrav1.PortalIdentityShared {
		from.secret, problem = r.secret(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name})
		return from, problem
	}
	if r.Namespace == "" {
		return from, outcome.StallFor(0, infrav1.IdentityNotReadyReason, "PortalClusterIdentity %q is not used by this manager, which serves one "+
			"namespace or does not know its own. Name a Secret in a new PortalCluster", ref.Name)
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

// BaseURL returns the URL of the identity's portal, or "" if it cannot be read.
func (r *Resolver) BaseURL(ctx context.Context, namespace string, ref infrav1.PortalIdentityReference) string {
	from, problem := r.read(ctx, namespace, ref)
	if !problem.IsDone() {
		return ""
	}
	return string(from.secret.Data[infrav1.IdentityBaseURL])
}

// secret returns a Secret, which must not be changed, and says what it lacks. It is read only if it may have changed. The content of a Secret
// that is no identity is not kept.
func (r *Resolver) secret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, outcome.Outcome) {
	secret, err := r.secrets.Get(ctx, r.Metadata, r.Client, key)
	problem := complete(key.Name, secret, err)
	if !problem.IsDone() {
		r.secrets.Forget(key)
		return nil, problem
	}
	return secret, problem
}

// liveSecret reads a Secret that is to be changed.
func (r *Resolver) liveSecret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, outcome.Outcome) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, key, secret)
	return secret, complete(key.Name, secret, err)
}

// complete is done if the Secret was read and has all that an identity needs.
func complete(name string, secret *corev1.Secret, err error) outcome.Outcome {
	if apierrors.IsNotFound(err) {
		return outcome.StallFor(0, infrav1.IdentityNotFoundReason,
			"create Secret %q with keys baseURL, email and password (optional: caBundle, totpSeed, account, requestsPerMinute)", name)
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("read identity Secret %q: %w", name, err))
	}
	for _, key := range []string{infrav1.IdentityBaseURL, infrav1.IdentityEmail, infrav1.IdentityPassword} {
		if len(secret.Data[key]) == 0 {
			return outcome.StallFor(0, infrav1.IdentityInvalidReason, "add key %q to Secret %q", key, name)
		}
	}
	return outcome.Outcome{}
}

// sharedSecret reads the Secret of a PortalClusterIdentity.
func (r *Resolver) sharedSecret(ctx context.Context, shared *infrav1.PortalClusterIdentity) (*corev1.Secret, outcome.Outcome) {
	secret, problem := r.secret(ctx, client.ObjectKey{Namespace: r.Namespace, Name: shared.Spec.SecretRef.Name})
	if problem.Kind == outcome.Stalled {
		problem.Message += fmt.Sprintf(" in namespace %q", r.Namespace)
	}
	return secret, problem
}

// allows reports whether the namespace is one of those allowed. The namespace is read past the cache, so a label that was taken away
// counts from the next pass on.
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
		return false, nil //nolint:nilerr // condition Ready of the PortalClusterIdentity says what is wrong with it
	case selector.Empty():
		return true, nil
	}
	found := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
		return false, fmt.Errorf("read Namespace %q: %w", namespace, err)
	}
	return selector.Matches(labels.Set(found.Labels)), nil
}

// notAllowed is the outcome for a namespace that may not use the PortalClusterIdentity. It is the same if there is no such identity, so
// nobody learns the names of others' identities from it.
func notAllowed(name, namespace string) outcome.Outcome {
	return outcome.StallFor(namespacePoll, infrav1.IdentityNotAllowedReason, "PortalClusterIdentity %q does not exist, or does not allow namespace %q. Ask its "+
		"administrator to allow the namespace, or name another identity in a new PortalCluster", name, namespace)
}

// conceal returns the problem as the users of the namespace may know it: nothing of the Secret of a PortalClusterIdentity, which is not theirs.
func (from source) conceal(problem outcome.Outcome) outcome.Outcome {
	if from.shared == nil || problem.Kind != outcome.Stalled {
		return problem
	}
	return outcome.StallFor(0, infrav1.IdentityNotReadyReason, "PortalClusterIdentity %q cannot be used now. Ask its administrator, who finds the reason in "+
		"its conditions", from.shared.Name)
}
