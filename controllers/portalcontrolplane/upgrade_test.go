// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestUpgradeSaysWhatMayStopIt has a Pod without a controller, or an API server that does not list Pods. The portal is asked for the upgrade all the
// same, and one event and the condition say what may stop it.
func TestUpgradeSaysWhatMayStopIt(t *testing.T) {
	for title, test := range map[string]struct {
		fails bool
		want  string
	}{
		"a bare Pod":     {want: "Pods without a controller: default/debug"},
		"no look at all": {fails: true, want: "Pods that cannot be listed"},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute})
				f.barePod("debug")
				if test.fails {
					f.failsToList()
				}
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				s := f.passes(time.Minute, 10*time.Second)
				c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
				if n := len(f.answers("upgrade")); n != 1 || c.Reason != infrav1.UpgradingReason || !strings.Contains(c.Message, test.want) {
					t.Errorf("%d requests: %s: %s", n, c.Reason, c.Message)
				}
				told := 0
				for _, event := range f.events() {
					if strings.HasPrefix(event, "Warning "+infrav1.EventUpgradeObstacles) && strings.Contains(event, test.want) {
						told++
					}
				}
				if told != 1 {
					t.Errorf("%d events name it", told)
				}
				if s = f.passes(10*time.Minute, 10*time.Second); !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) {
					t.Errorf("the upgrade has not ended: %+v", s.Last)
				}
			})
		})
	}
}

// TestUpgradeIsHeld has a Pod without a controller, and a user who wants such upgrades to be held. When the Pod is gone, the upgrade begins.
func TestUpgradeIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		pod := f.barePod("debug")
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.Version, cp.Spec.UpgradePrecheck = after, infrav1.UpgradePrecheckHold
		})
		s := f.passes(6*time.Hour, 10*time.Second)
		c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		if n := len(f.answers("upgrade")); n != 0 || c.Reason != infrav1.UpgradeHeldReason || !strings.Contains(c.Message, "default/debug") {
			t.Errorf("%d requests: %s: %s", n, c.Reason, c.Message)
		}
		if err := f.nodes.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if f.passes(5*time.Minute, 10*time.Second); !f.allRun(after) {
			t.Error("the cluster is not upgraded")
		}
	})
}

// TestUpgradeWaitsForTheDrain has a scale-down whose drain a PodDisruptionBudget blocks, and a user who sets a newer version. An upgrade would undo the
// drain, so the portal is not asked for it until the user gives the scale-down up.
func TestUpgradeWaitsForTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.refuseEvictions(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10), "db-0", "db-1", "db-2")
		f.scale(2)
		f.passes(5*time.Minute, 10*time.Second)
		cordoned, _ := f.cordoned()
		if len(cordoned) != 1 {
			t.Fatalf("drained: %v", cordoned)
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		s := f.passes(time.Hour, 10*time.Second)
		c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		if n := len(f.answers("upgrade")); n != 0 || c.Reason != infrav1.WaitingForOperationReason || !strings.Contains(c.Message, "Node "+cordoned[0]) {
			t.Errorf("%d requests to upgrade during the drain: %s: %s", n, c.Reason, c.Message)
		}
		f.scale(3)
		if f.passes(15*time.Minute, 10*time.Second); !f.allRun(after) || len(f.answers("upgrade")) != 1 {
			t.Errorf("%d requests to upgrade after the scale-down was given up", len(f.answers("upgrade")))
		}
	})
}

// barePod creates a Pod without a controller on a worker.
func (f *fixture) barePod(name string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: f.worker().Name}}
	if err := f.nodes.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	return pod
}

// failsToList starts a manager for which the workload cluster lists Nodes only.
func (f *fixture) failsToList() {
	f.Helper()
	inner, _ := f.nodes.Client.(client.WithWatch)
	f.nodes.Client = interceptor.NewClient(inner, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		switch list.(type) {
		case *corev1.PodList, *policyv1.PodDisruptionBudgetList:
			return errors.New("the API server is overloaded")
		}
		return c.List(ctx, list, opts...)
	}})
	f.restart()
}
