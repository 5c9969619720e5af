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
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// TestPassEndsDuringTheIntent: the time of a pass ends while the intent is being written, and the API server stores it all the
// same. The operation is not lost. Otherwise a creation that was never sent would wait for a person.
func TestPassEndsDuringTheIntent(t *testing.T) {
	for _, w := range works {
		t.Run(string(w.Type), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, w, emulator.Options{})
				store, ok := f.store.(client.WithWatch)
				if !ok {
					t.Fatalf("%T", f.store)
				}
				slow := interceptor.NewClient(store, interceptor.Funcs{Patch: func(
					ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
				) error {
					time.Sleep(1500 * time.Millisecond)
					if err := c.Patch(context.WithoutCancel(ctx), obj, patch, opts...); err != nil {
						return err
					}
					return ctx.Err() // the manager does not get the answer
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				portal, cp := f.client(), f.object()
				m := f.runner(cp, portal, &outcome.Backoff{})
				m.Writer.Client = slow
				o, _ := m.Start(ctx, f.next(cp), f.send(m))
				if stored := f.operation(); stored.Lost() || stored.JobID == "" && stored.Result != Succeeded {
					t.Errorf("%+v: %+v", stored, o)
				}
				if _, sent := f.jobs(); sent != 1 {
					t.Errorf("%d requests", sent)
				}
			})
		})
	}
}

// TestPassThatIsOver: a pass that has timed out, or a manager that stops, starts nothing.
func TestPassThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, works[0], emulator.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		portal, cp := f.client(), f.object()
		m := f.runner(cp, portal, &outcome.Backoff{})
		if o, _ := m.Start(ctx, f.next(cp), f.send(m)); o.IsDone() || f.operation() != nil {
			t.Errorf("%+v: %+v", f.operation(), o)
		}
	})
}
