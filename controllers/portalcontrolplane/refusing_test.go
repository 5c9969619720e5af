// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		f.pass()
		bad := f.workers()[1].Name // of one age, the last name goes first
		f.refuseChanges(bad)
		f.scale(1)
		s := f.passes(time.Hour, 5*time.Second)
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if len(f.workers()) != 2 || !strings.Contains(o.Message, "Node "+bad+" cannot be changed") || !strings.Contains(o.Message, "nodes.policy.example") {
			t.Errorf("%d workers, want 2; %s: %q", len(f.workers()), o.Reason, o.Message)
		}
	})
}

// TestNodeThatCannotBeUncordoned lowers the replicas from 3 to 2, and corrects the order of removal when the wrong node is being drained. That
// node stays, and it cannot be made schedulable again. The one that goes is removed all the same.
func TestNodeThatCannotBeUncordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, emulator.Durations{})
		f.settleAt(1)
		f.settleAt(2)
		f.settleAt(3)
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrderOldest })
		f.scale(2)
		f.pass()
		bad, _ := f.cordoned()
		if len(bad) != 1 {
			t.Fatalf("%v are being drained, want one", bad)
		}
		f.refuseChanges(bad[0])
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrderNewest })
		s := f.passes(time.Hour, 5*time.Second)
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if left, workers := f.cordoned(); workers != 2 || !slices.Equal(left, bad) || !strings.Contains(o.Message, "Node "+bad[0]+" cannot be changed") {
			t.Errorf("%d workers, want 2; cordoned: %v, want %v; %s: %q", workers, left, bad, o.Reason, o.Message)
		}
	})
}

// TestNodeThatCannotBeNamed binds three Machines to nodes, one of which cannot get a providerID. The others are bound.
func TestNodeThatCannotBeNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		var bad string
		for _, n := range f.workers() {
			n.Spec.ProviderID, bad = "", n.Name
			if err := f.nodes.Update(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
		}
		f.refuseChanges(bad)
		for _, name := range []string{"m1", "m2", "m3"} {
			f.machine(name, func(*clusterv1.Machine) {})
		}
		f.passes(10*time.Minute, 5*time.Second)
		all := &infrav1.PortalMachineList{}
		if err := f.store.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		var bound []string
		for _, m := range all.Items {
			if m.Spec.Node != nil {
				bound = append(bound, m.Spec.Node.Name)
			}
		}
		if len(bound) != 2 || slices.Contains(bound, bad) {
			t.Errorf("bound to %v, and %s cannot be changed", bound, bad)
		}
	})
}

// TestFailedUpgradeAndANodeThatStaysCordoned: a portal leaves all workers cordoned when an upgrade fails, and one of them cannot be changed. The
// others take Pods again, and the replicas are still followed.
func TestFailedUpgradeAndANodeThatStaysCordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.pass()
		f.strike(emulator.Fault{Path: routeAnyUpgrade, Job: emulator.JobFails, JobDelay: time.Minute, Count: 1})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.pass()
		for _, n := range f.workers() {
			n.Spec.Unschedulable = true
			if err := f.nodes.Update(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = before })
		bad := f.workers()[0].Name
		f.refuseChanges(bad)
		s := f.passes(10*time.Minute, 5*time.Second)
		if names, _ := f.cordoned(); !slices.Equal(names, []string{bad}) {
			t.Errorf("cordoned: %v, want %s", names, bad)
		}
		if o := s.outcomes[infrav1.VersionUpToDateCondition]; !strings.Contains(o.Message, "Node "+bad) || !strings.Contains(o.Message, "nodes.policy.example") {
			t.Errorf("%s: %q", o.Reason, o.Message)
		}
		f.scale(4)
		f.passes(10*time.Minute, 5*time.Second)
		if n := len(f.workers()); n != 4 {
			t.Errorf("%d workers, want 4", n)
		}
	})
}

// TestAutoscaledClusterWhosePodsCannotBeListed scales up. Only the cluster autoscaler is held up, and the condition says why.
func TestAutoscaledClusterWhosePodsCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.editDeployment(func(md *clusterv1.MachineDeployment) {
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMinSizeAnnotation, "1")
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMaxSizeAnnotation, "5")
		})
		workload, _ := f.nodes.Client.(client.WithWatch)
		f.nodes.Client = interceptor.NewClient(workload, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, pods := list.(*metav1.PartialObjectMetadataList); pods {
					return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("a policy"))
				}
				return c.List(ctx, list, opts...)
			},
		})
		f.restart()
		f.scale(3)
		for _, name := range []string{"m1", "m2", "m3"} {
			f.machine(name, func(*clusterv1.Machine) {})
		}
		s := f.passes(10*time.Minute, 5*time.Second)
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if len(f.workers()) != 3 || o.Reason != infrav1.ScaleDownDisabledReason || !strings.Contains(o.Message, "a policy") {
			t.Errorf("%d workers, want 3; %s: %q", len(f.workers()), o.Reason, o.Message)
		}
		for _, n := range f.workers() {
			if n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] != "true" {
				t.Errorf("the autoscaler may remove Node %s: %v", n.Name, n.Annotations)
			}
		}
	})
}
