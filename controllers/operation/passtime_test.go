// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestPassEndsDuringTheIntent: the time of a pass ends while the intent is being written, and the API server stores it all the
// same. The operation is not lost. Otherwise a creation that was never sent would wait for a person.
func TestPassEndsDuringTheIntent(t *testing.T) {
	for _, w := range works {
		t.Run(string(w.Type), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, w, emulator.Options{})
				defer h.portal.Close()
				store, ok := h.store.(client.WithWatch)
				if !ok {
					t.Fatalf("%T", h.store)
				}
				slow := interceptor.NewClient(store, interceptor.Funcs{Patch: func(
					ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
				) error {
					time.Sleep(2 * time.Second)
					if err := c.Patch(context.WithoutCancel(ctx), obj, patch, opts...); err != nil {
						return err
					}
					return ctx.Err() // the manager does not get the answer
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				portal, cp := h.client(), h.object()
				m := Runner{
					Object: cp, Writer: Writer{Client: slow, Live: h.store}, Memory: &Memory{}, Portal: portal, Flow: "default/story", Cluster: h.id,
				}
				op := New(w.Type, w.target)
				op.Attempt, op.From = "1", 2
				if w.Type == Create {
					op.Target = cp.Spec.ClusterName
				}
				o := m.Start(ctx, op, &request{h: h, cp: cp, portal: portal})
				if stored := h.operation(); stored.Lost() || stored.JobID == "" && stored.Result != Succeeded {
					t.Errorf("%+v: %+v", stored, o)
				}
				if _, sent := h.jobs(); sent != 1 {
					t.Errorf("%d requests", sent)
				}
			})
		})
	}
}

// TestPassThatIsOver: a pass that has timed out, or a manager that stops, starts nothing.
func TestPassThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, works[0], emulator.Options{})
		defer h.portal.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		portal, cp := h.client(), h.object()
		m := Runner{Object: cp, Writer: Writer{Client: h.store, Live: h.store}, Memory: &Memory{}, Portal: portal, Flow: "default/story"}
		if o := m.Start(ctx, New(Create, cp.Spec.ClusterName), &request{h: h, cp: cp, portal: portal}); o.IsDone() || h.operation() != nil {
			t.Errorf("%+v: %+v", h.operation(), o)
		}
	})
}
