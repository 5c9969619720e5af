// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const interval = 2 * time.Second

// repository holds the manifests, and applies them in rounds.
type repository struct {
	applier applier

	mu        sync.Mutex
	manifests []*unstructured.Unstructured
	applied   map[string]*unstructured.Unstructured // objects that a round may prune
	rounds    int
	failures  []string
}

// sync applies the manifests until the test ends.
func (f *fixture) sync() {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			f.git.round(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	}()
	f.stopSync = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	f.Cleanup(f.stopSync)
}

// round applies all manifests once, and prunes the objects that are no longer in them. If a deletion fails, as of a ClusterClass in use, the
// next round tries again.
func (r *repository) round(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := map[string]*unstructured.Unstructured{}
	for _, o := range r.manifests {
		kept[id(o)] = o.DeepCopy()
		tracked := o.DeepCopy()
		r.applier.track(tracked)
		if err := r.applier.apply(ctx, tracked); isRefusal(err) {
			r.failures = append(r.failures, fmt.Sprintf("round %d: %s: %v", r.rounds, id(o), err))
		}
	}
	for name, o := range r.applied {
		if kept[name] == nil {
			if err := live.Delete(ctx, o, client.PropagationPolicy("Background")); err != nil && !apierrors.IsNotFound(err) {
				kept[name] = o
			}
		}
	}
	r.applied = kept
	r.rounds++
}

// isRefusal reports whether the API server, a webhook or a policy refused the content of the request. This includes conflicts. It does not
// include errors of a busy host, such as a lost connection: the next round applies again.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusNotFound && code != http.StatusTooManyRequests
}

func (r *repository) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rounds
}

func (r *repository) refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.failures...)
}

// commit changes the manifests.
func (f *fixture) commit(change func(manifests *manifests)) {
	f.Helper()
	f.git.mu.Lock()
	defer f.git.mu.Unlock()
	m := manifests{fixture: f, all: f.git.manifests}
	change(&m)
	f.git.manifests = m.all
	f.committed = f.git.rounds
}

// synced waits until the last commit has been applied the given number of times.
func (f *fixture) synced(times int) {
	f.Helper()
	f.Eventually(f.git.count).Should(BeNumerically(">=", f.committed+times), "rounds of applying")
}

// manifests are what a commit changes.
type manifests struct {
	*fixture
	all []*unstructured.Unstructured
}

// of returns the manifest of the kind.
func (m *manifests) of(kind string) *unstructured.Unstructured {
	for _, o := range m.all {
		if o.GetKind() == kind {
			return o
		}
	}
	m.Fatalf("the manifests have no %s", kind)
	return nil
}

// set sets a field of the manifest of the kind, or removes the field if the value is nil.
func (m *manifests) set(kind string, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(m.of(kind).Object, path...)
		return
	}
	m.Expect(unstructured.SetNestedField(m.of(kind).Object, value, path...)).To(Succeed())
}

func id(o client.Object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetName()
}
