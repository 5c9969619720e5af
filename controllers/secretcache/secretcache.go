// SPDX-License-Identifier: Apache-2.0

// Package secretcache keeps the content of Secrets that every pass needs, so that one read serves many passes. The manager watches the
// metadata of all Secrets, and the content of none. What was read is used as long as the metadata shows the same Secret. A change is noticed
// as soon as its watch event arrives, which is within a second.
//
// Only what a caller asks for is kept, and it is kept in memory only.
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

// idle is how long a Secret that no caller asks for is kept. A portal client that is not used is dropped after the same time.
const idle = time.Hour

// Memory holds Secrets by their keys. The zero value is ready to use.
type Memory struct {
	mu    sync.Mutex
	known map[client.ObjectKey]entry
}

type entry struct {
	secret *corev1.Secret
	used   time.Time
}

// Get returns the Secret, which the caller must not change. It is read live unless metadata, a cache, shows the one that was read before.
// Without metadata every read is live.
func (m *Memory) Get(ctx context.Context, metadata, live client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	if known := m.recall(ctx, metadata, key); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	if err := live.Get(ctx, key, secret); err != nil {
		m.Forget(key)
		return nil, err
	}
	if metadata != nil {
		m.Put(secret)
	}
	return secret, nil
}

// Absent reports whether the metadata shows no such Secret. A Secret that was created within the last second may exist.
func Absent(ctx context.Context, metadata client.Reader, key client.ObjectKey) bool {
	if metadata == nil {
		return false
	}
	_, err := shown(ctx, metadata, key)
	return apierrors.IsNotFound(err)
}

// shown returns what the metadata shows of a Secret.
func shown(ctx context.Context, metadata client.Reader, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret, metadata.Get(ctx, key, secret, client.UnsafeDisableDeepCopy)
}

// Put keeps a Secret as it was just read or written. The caller must not change it afterwards. Until the metadata shows it, it is read again.
func (m *Memory) Put(secret *corev1.Secret) {
	secret.ManagedFields = nil
	m.keep(client.ObjectKeyFromObject(secret), secret)
}

// Forget drops what is known of the Secret: it was written, is no longer needed, or is of no use.
func (m *Memory) Forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}

// recall returns the Secret that was read before, or nil if there is none or the metadata shows another one. The metadata may be older than
// what was read. Then the Secret is read again until the metadata shows it.
func (m *Memory) recall(ctx context.Context, metadata client.Reader, key client.ObjectKey) *corev1.Secret {
	if metadata == nil {
		return nil
	}
	current, err := shown(ctx, metadata, key)
	if err != nil {
		return nil // it is new or gone: the live read tells
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

func (m *Memory) keep(key client.ObjectKey, secret *corev1.Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.known, func(_ client.ObjectKey, e entry) bool { return now.Sub(e.used) > idle })
	if m.known == nil {
		m.known = map[client.ObjectKey]entry{}
	}
	m.known[key] = entry{secret, now}
}
