// SPDX-License-Identifier: Apache-2.0

// Package secretcache keeps the content of Secrets that every pass needs, so that one read serves many passes. The manager
// watches the metadata of all Secrets, and the content of none. A Secret is read again when the metadata shows that it has
// changed, which is usually within a second.
//
// Only Secrets that a caller asks for are kept, and only in memory.
package secretcache

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// idle is how long a Secret is kept that no caller asks for. An unused portal client is dropped after the same time.
const idle = time.Hour

// Cache holds Secrets by their keys.
type Cache struct {
	// Metadata is a cache of the metadata of Secrets. If it is nil, every read of a Secret is live.
	Metadata client.Reader
	Live     client.Reader

	mu    sync.Mutex
	known map[client.ObjectKey]entry
}

type entry struct {
	secret *corev1.Secret
	used   time.Time
}

// Get returns the Secret, which the caller must not change. It is read live unless its metadata shows that it has not changed.
func (m *Cache) Get(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	if known := m.recall(ctx, key); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	if err := m.Live.Get(ctx, key, secret); err != nil {
		m.Forget(key)
		return nil, err
	}
	m.Put(secret)
	return secret, nil
}

// Absent reports whether the metadata shows no such Secret. A Secret that was created within the last second may exist.
func (m *Cache) Absent(ctx context.Context, key client.ObjectKey) bool {
	if m.Metadata == nil {
		return false
	}
	_, err := m.metadata(ctx, key)
	return apierrors.IsNotFound(err)
}

// metadata returns the metadata of a Secret.
func (m *Cache) metadata(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret, m.Metadata.Get(ctx, key, secret, client.UnsafeDisableDeepCopy)
}

// Put keeps a Secret as it was just read or written. The caller must not change it afterwards. Until the metadata shows it, it is read again.
func (m *Cache) Put(secret *corev1.Secret) {
	if m.Metadata != nil {
		secret.ManagedFields = nil
		m.keep(client.ObjectKeyFromObject(secret), secret)
	}
}

// Forget drops the Secret, because it was written, is no longer needed, or cannot be used.
func (m *Cache) Forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}

// recall returns the Secret that was read before, or nil if it was not read or the metadata shows a change. The metadata may be
// older than the Secret. Then the Secret is read again until the metadata shows it.
func (m *Cache) recall(ctx context.Context, key client.ObjectKey) *corev1.Secret {
	if m.Metadata == nil {
		return nil
	}
	current, err := m.metadata(ctx, key)
	if err != nil {
		return nil // it is new or gone: read it live
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.known[key]
	if !found || known.secret.UID != current.UID || known.secret.ResourceVersion != current.ResourceVersion {
		return nil
	}
	known.used = time.Now()
	m.known[key] = known
	return known.secret
}

func (m *Cache) keep(key client.ObjectKey, secret *corev1.Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.known, func(_ client.ObjectKey, e entry) bool { return now.Sub(e.used) > idle })
	if m.known == nil {
		m.known = map[client.ObjectKey]entry{}
	}
	m.known[key] = entry{secret, now}
}
