// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestStatusAfterTheTimeOfAPass checks that a pass that timed out waiting for the portal still reports that in the conditions.
func TestStatusAfterTheTimeOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, emulator.Durations{})
		// Like an API server, and unlike the fake one: nothing is written for a caller that is gone.
		store, ok := f.store.(client.WithWatch)
		if !ok {
			t.Fatalf("%T", f.store)
		}
		f.manager.Client = interceptor.NewClient(store, interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}})
		f.strike(emulator.Fault{Method: "GET", Path: "/kubernetes-versions", Delay: 90 * time.Second})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Second, errors.New("the pass is over"))
		defer cancel()
		s := f.scope()
		before := s.ControlPlane.Status.DeepCopy()
		_, err := s.Identity.Portal.KubernetesVersions(ctx)
		s.outcomes[infrav1.ProvisionedCondition] = outcome.FromPortalError(err)
		if err := f.manager.patchStatus(ctx, s, before); err != nil {
			t.Error(err)
		}
		if c := conditions.Get(f.controlPlane(), infrav1.ProvisionedCondition); c == nil || c.Reason != infrav1.PortalUnavailableReason {
			t.Errorf("condition: %+v", c)
		}
	})
}
