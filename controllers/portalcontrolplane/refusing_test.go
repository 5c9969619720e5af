// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// These tests check that an object of the workload cluster that cannot be read or written does not hold up what concerns the others.

// refuseChanges starts a manager for which a webhook of the workload cluster fails whenever the Node is changed.
func (f *fixture) refuseChanges(node string) {
	f.Helper()
	workload, _ := f.nodes.Client.(client.WithWatch)
	f.nodes.Client = interceptor.NewClient(workload, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == node {
				return apierrors.NewInternalError(errors.New(`failed calling webhook "nodes.policy.example": no endpoints available`))
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	f.restart()
}

// TestNodeThatCannotBeCordoned lowers the replicas from 3 to 1. The Node to remove second cannot be changed. The first one is removed all the
// same, and the condition names the other one with the webhook.
func TestNodeThatCannotBeCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		f.pass()
		bad := f.workers()[1].Name // of one age, the last name goes first
		f.refuseChanges(bad)
		f.scale(1)
		s := f.passes(time.Hour, 5*time.Second)
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if len(f.workers()) != 2 || !strings.Contains(o.Message, "Node "+bad+" cannot be changed") || !strings.Contains(o.Message, "nodes.policy.example") {
			f.Errorf("%d workers, want 2; %s: %q", len(f.workers()), o.Reason, o.Message)
		}
	})
}

// TestFailedUpgradeAndANodeThatStaysCordoned: a portal leaves all workers cordoned when an upgrade fails, and one of them cannot be changed. The
// others take Pods again, and the replicas are still followed.
func TestFailedUpgradeAndANodeThatStaysCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.pass()
		f.strike(emulator.Fault{Path: routeAnyUpgrade, Job: emulator.JobFails, JobDelay: time.Minute, Count: 1})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.pass()
		for _, n := range f.workers() {
			n.Spec.Unschedulable = true
			f.must(f.nodes.Update(f.Context(), &n))
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = before })
		bad := f.workers()[0].Name
		f.refuseChanges(bad)
		s := f.passes(10*time.Minute, 5*time.Second)
		if names, _ := f.cordoned(); !slices.Equal(names, []string{bad}) {
			f.Errorf("cordoned: %v, want %s", names, bad)
		}
		if o := s.outcomes[infrav1.VersionUpToDateCondition]; !strings.Contains(o.Message, "Node "+bad) || !strings.Contains(o.Message, "nodes.policy.example") {
			f.Errorf("%s: %q", o.Reason, o.Message)
		}
		f.scale(4)
		f.passes(10*time.Minute, 5*time.Second)
		if n := len(f.workers()); n != 4 {
			f.Errorf("%d workers, want 4", n)
		}
	})
}
