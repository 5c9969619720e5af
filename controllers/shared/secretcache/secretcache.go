// SPDX-License-Identifier: Apache-2.0

// Package secretcache keeps the content of Secrets that every pass needs, so that one read serves many passes. The manager
// watches the metadata of all Secrets, and the content of none. A Secret is read again when the metadata shows that it has
// changed, which is usually within a second.
//
// Only Secrets that a caller asks for are kept, and only in memory.
package secretcache

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept is how long a Secret is kept after it was read. An unused portal client is dropped after the same time.
const kept = time.Hour

// Cache holds Secrets by their keys.
type Cache struct {
	metadata, live client.Reader
	known          *cache.Expiring
}

// New returns an empty cache. metadata is a cache of the metadata of Secrets. If it is nil, every read of a Secret is live.
func New(metadata, live client.Reader) *Cache { return &Cache{metadata, live, cache.NewExpiring()} }

// Get returns the Secret, which the caller must not change. It is read live unless its metadata shows that it has not changed.
func (m *Cache) Get(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	if known := m.recall(ctx, key); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	if err := m.live.Get(ctx, key, secret); err != nil {
		m.Forget(key)
		return nil, err
	}
	m.Put(secret)
	return secret, nil
}

// Absent reports whether the metadata shows no such Secret. A Secret that was created within the last second may exist.
func (m *Cache) Absent(ctx context.Context, key client.ObjectKey) bool {
	if m.metadata == nil {
		return false
	}
	_, err := m.shown(ctx, key)
	return apierrors.IsNotFound(err)
}

// shown returns the metadata of a Secret.
func (m *Cache) shown(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret, m.metadata.Get(ctx, key, secret, client.UnsafeDisableDeepCopy)
}

// Put keeps a Secret as it was just read or written. The caller must not change it afterwards. Until the metadata shows it, it is read again.
func (m *Cache) Put(secret *corev1.Secret) {
	if m.metadata != nil {
		secret.ManagedFields = nil
		m.known.Set(client.ObjectKeyFromObject(secret), secret, kept)
	}
}

// Forget drops the Secret, because it was written, is no longer needed, or cannot be used.
func (m *Cache) Forget(key client.ObjectKey) { m.known.Delete(key) }

// recall returns the Secret that was read before, or nil if it was not read or the metadata shows a change. The metadata may be
// older than the Secret. Then the Secret is read again until the metadata shows it.
func (m *Cache) recall(ctx context.Context, key client.ObjectKey) *corev1.Secret {
	known, found := m.known.Get(key)
	if !found {
		return nil
	}
	current, err := m.shown(ctx, key)
	secret := known.(*corev1.Secret) // nothing else is kept
	if err != nil || secret.UID != current.UID || secret.ResourceVersion != current.ResourceVersion {
		return nil // it has changed, or is new or gone
	}
	return secret
}
