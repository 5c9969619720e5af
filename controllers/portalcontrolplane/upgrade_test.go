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
	type row struct {
		fails bool
		want  string
	}
	cases(t, map[string]row{
		"a bare Pod":     {want: "Pods without a controller: default/debug"},
		"no look at all": {fails: true, want: "Pods that cannot be listed"},
	}, func(t *testing.T, test row) {
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
}

// TestUpgradeIsHeld has a Pod without a controller, and a user who wants such upgrades to be held. When the Pod is gone, the upgrade begins.
func TestUpgradeIsHeld(t *testing.T) {
	live(t, 2, func(f *fixture) {
		pod := f.barePod("debug")
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.Version, cp.Spec.UpgradePrecheck = after, infrav1.UpgradePrecheckHold
		})
		s := f.passes(6*time.Hour, 10*time.Second)
		c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		if n := len(f.answers("upgrade")); n != 0 || c.Reason != infrav1.UpgradeHeldReason || !strings.Contains(c.Message, "default/debug") {
			f.Errorf("%d requests: %s: %s", n, c.Reason, c.Message)
		}
		f.must(f.nodes.Delete(f.Context(), pod))
		if f.passes(5*time.Minute, 10*time.Second); !f.allRun(after) {
			f.Error("the cluster is not upgraded")
		}
	})
}

// TestUpgradeWaitsForTheDrain has a scale-down whose drain a PodDisruptionBudget blocks, and a user who sets a newer version. An upgrade would undo the
// drain, so the portal is not asked for it until the user gives the scale-down up.
func TestUpgradeWaitsForTheDrain(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.refuseEvictions(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10), "db-0", "db-1", "db-2")
		f.scale(2)
		f.passes(5*time.Minute, 10*time.Second)
		cordoned, _ := f.cordoned()
		if len(cordoned) != 1 {
			f.Fatalf("drained: %v", cordoned)
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		s := f.passes(time.Hour, 10*time.Second)
		c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		if n := len(f.answers("upgrade")); n != 0 || c.Reason != infrav1.WaitingForOperationReason || !strings.Contains(c.Message, "Node "+cordoned[0]) {
			f.Errorf("%d requests to upgrade during the drain: %s: %s", n, c.Reason, c.Message)
		}
		f.scale(3)
		if f.passes(15*time.Minute, 10*time.Second); !f.allRun(after) || len(f.answers("upgrade")) != 1 {
			f.Errorf("%d requests to upgrade after the scale-down was given up", len(f.answers("upgrade")))
		}
	})
}

// barePod creates a Pod without a controller on a worker.
func (f *fixture) barePod(name string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: f.worker().Name}}
	f.must(f.nodes.Create(f.Context(), pod))
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

// staleVersion answers as the API server did in the pass before, unless that pass put another question. The answer does not change before
// the upgrade has ended.
type staleVersion struct {
	f                 *fixture
	question, version string
}

func (v *staleVersion) answer(question string) (last string) {
	if v.question == question {
		last = v.version
	}
	v.question, v.version = question, before
	if v.f.portal.Clusters()[0].State != emulator.ClusterUpgrading {
		v.f.nodes.mu.Lock()
		defer v.f.nodes.mu.Unlock()
		v.version = v.f.nodes.version
	}
	return last
}

// TestUpgradeIsSentOnce upgrades a cluster with passes at different intervals. In every pass the API server's answer is as old as
// the interval, up to half a minute. If the pass that sees the end of the upgrade compared an answer from before the end with
// spec.version, it would send the upgrade again, and the portal would replace every node a second time. Nor does an outage during the upgrade
// have this effect, whether polls of the job wait for their answers or get none.
func TestUpgradeIsSentOnce(t *testing.T) {
	poll := emulator.Fault{Method: "GET", Path: "/jobs/*"}
	late, cut := poll, poll
	late.Delay, cut.Cut, cut.For = 10*time.Second, true, 10*time.Second
	for title, outage := range map[string]*emulator.Fault{"": nil, ", late answers": &late, ", no answers": &cut} {
		for _, every := range []time.Duration{time.Second, 6 * time.Second, 11 * time.Second, 29 * time.Second} {
			t.Run(every.String()+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute})
					f.connected = true
					f.workloads.version = (&staleVersion{f: f}).answer
					if outage != nil {
						f.strike(*outage)
					}
					f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
					s := f.passes(5*time.Minute, every)
					if !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) || s.Record.Version != after || !f.allRun(after) {
						t.Errorf("not upgraded: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
					}
					if answers := f.answers("upgrade"); len(answers) != 1 {
						t.Errorf("%d requests for one upgrade: %v", len(answers), answers)
					}
				})
			})
		}
	}
}
