// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// warnings runs passes for ten minutes and returns the Warnings of that time.
func (f *fixture) warnings() (all []string) {
	f.Helper()
	for start := time.Now(); time.Since(start) < 10*time.Minute; time.Sleep(10 * time.Second) {
		s := f.pass()
		f.must(f.manager.patchStatus(f.Context(), s, f.controlPlane().Status.DeepCopy()))
	}
	return slices.DeleteFunc(f.events(), func(event string) bool { return !strings.HasPrefix(event, "Warning ") })
}

// TestHoldsWarnOnce checks that a wait for a person emits one Warning, although it is tried again and again, and that a manager
// that starts repeats none. In these ten minutes the portal gets at most two requests a minute.
func TestHoldsWarnOnce(t *testing.T) {
	refused := func(word string) func(*fixture) {
		return func(f *fixture) {
			f.strike(emulator.Fault{Path: "/kubernetes-clusters/*/" + word, Code: emulator.CodeQuotaExceeded})
		}
	}
	version := func(v string) func(*fixture) {
		return func(f *fixture) { f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = v }) }
	}
	type row struct {
		begin  []func(*fixture)
		reason string
	}
	cases(t, map[string]row{
		"a version that is not offered": {[]func(*fixture){version("v1.99.0")}, infrav1.VersionNotOfferedReason},
		"a downgrade":                   {[]func(*fixture){version("v1.20.0")}, infrav1.VersionNotOfferedReason},
		"the quota, at an upgrade":      {[]func(*fixture){refused("upgrade"), version(after)}, infrav1.RefusedReason},
		"the quota, at a scale":         {[]func(*fixture){refused("scale"), func(f *fixture) { f.scale(3) }}, infrav1.RefusedReason},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{})
		if got := f.warnings(); len(got) != 0 {
			t.Fatalf("while all is well: %q", got)
		}
		before := len(f.portal.RequestLog())
		for _, begin := range test.begin {
			begin(f)
		}
		if got := f.warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning "+test.reason+" ") {
			t.Errorf("%q, want one with reason %s", got, test.reason)
		}
		if c := conditions.Get(f.controlPlane(), infrav1.ReadyCondition); c.Reason != test.reason || c.Message == "" {
			t.Errorf("Ready: %+v", c)
		}
		asked := slices.DeleteFunc(f.portal.RequestLog()[before:], func(e emulator.LogEntry) bool { return !e.IsRequest() })
		if len(asked) > 20 {
			t.Errorf("%d requests in 10 minutes: %v", len(asked), asked)
		}
		f.restart()
		if got := f.warnings(); len(got) != 0 {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// TestStatusAfterTheTimeOfAPass checks that a pass that timed out waiting for the portal still reports that in the conditions.
func TestStatusAfterTheTimeOfAPass(t *testing.T) {
	live(t, 1, func(f *fixture) {
		// Like an API server, and unlike the fake one: nothing is written for a caller that is gone.
		store, ok := f.store.(client.WithWatch)
		if !ok {
			f.Fatalf("%T", f.store)
		}
		f.manager.Client = interceptor.NewClient(store, interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}})
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		s := f.scope()
		before := s.ControlPlane.Status.DeepCopy()
		s.outcomes[infrav1.ProvisionedCondition] = outcome.WaitFor(0, infrav1.PortalUnavailableReason, "the portal does not answer")
		if err := f.manager.patchStatus(ctx, s, before); err != nil {
			f.Error(err)
		}
		if c := conditions.Get(f.controlPlane(), infrav1.ProvisionedCondition); c == nil || c.Reason != infrav1.PortalUnavailableReason {
			f.Errorf("condition: %+v", c)
		}
	})
}
