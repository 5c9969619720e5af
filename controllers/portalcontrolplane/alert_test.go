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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// These tests check what the provider does at a portal that refuses to change a cluster after a failed job, until the portal's operator
// repairs the cluster.

// Drain implements emulator.Drainer.
func (w workloads) Drain(ctx context.Context, id, node string, _ time.Duration) error {
	err := w.Cordon(ctx, id, node, true)
	if err == nil && node == w.blocked {
		err = errors.New("a Pod is left")
	}
	return err
}

// Cordon implements emulator.Drainer.
func (w workloads) Cordon(ctx context.Context, _, node string, unschedulable bool) error {
	n := &corev1.Node{}
	if err := w.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return err
	}
	n.Spec.Unschedulable = unschedulable
	return w.Update(ctx, n)
}

// TestPortalRefusesUntilTheRepair has the portal refuse an operation after a failed job, and looks at the conditions and requests of the next six
// hours. After the repair, the operation is carried out.
func TestPortalRefusesUntilTheRepair(t *testing.T) {
	for operation, test := range map[string]struct {
		method, condition string
		reached           func(*fixture) bool
	}{
		"scale":   {"POST", infrav1.WorkersReadyCondition, func(f *fixture) bool { return f.portal.Clusters()[0].Size == 5 && len(f.workers()) == 5 }},
		"upgrade": {"POST", infrav1.VersionUpToDateCondition, func(f *fixture) bool { return f.portal.Clusters()[0].Version == after && f.allRun(after) }},
		"delete":  {"DELETE", clusterv1.DeletingCondition, func(f *fixture) bool { return len(f.portal.Clusters()) == 0 }},
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				fails := emulator.Fault{Job: emulator.JobFailsHalfway, Alert: true, LeaveCordoned: true, Count: 1, JobMessage: "a node could not be drained"}
				var pass func() *scope
				if operation == "delete" {
					f.liveBy(f.begin("scale", fails), time.Minute)
					pass = f.begin(operation, emulator.Fault{State: emulator.ClusterAlert, Code: emulator.CodeOperationNotAllowed, Message: "it is in state Alert"})
				} else {
					pass = f.begin(operation, fails)
					if c := conditions.Get(f.liveBy(pass, 20*time.Second).ControlPlane, test.condition); !strings.Contains(c.Message, fails.JobMessage) {
						t.Errorf("after the failure: %s: %s", c.Reason, c.Message)
					}
				}
				c := conditions.Get(f.liveBy(pass, 6*time.Hour).ControlPlane, test.condition)
				for _, want := range []string{"is in state Alert", "the portal's operator has to repair"} {
					if c.Reason != infrav1.RefusedReason || !strings.Contains(c.Message, want) {
						t.Errorf("while the portal refuses: %s: %s", c.Reason, c.Message)
					}
				}
				if got := strings.Join(f.events(), "\n"); operation == "delete" && !strings.Contains(got, "Warning "+infrav1.EventDeletionHeld) {
					t.Errorf("events: %s", got)
				}
				f.bounded(test.method)
				f.must(f.portal.Repair(f.id))
				f.liveBy(pass, 15*time.Minute)
				if !test.reached(f) {
					t.Errorf("after the repair: %+v", f.portal.Clusters())
				}
			})
		})
	}
}

// cordon has the portal cordon the node or make it schedulable, as a person does.
func (f *fixture) cordon(node string, unschedulable bool) {
	f.Helper()
	f.must((workloads{f.nodes}).Cordon(f.Context(), "", node, unschedulable))
}

// TestFailedUpgradeLeavesNoNodeCordoned checks which nodes become schedulable after an upgrade that failed at the second worker.
func TestFailedUpgradeLeavesNoNodeCordoned(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	type row struct {
		earlier bool               // the node was cordoned before the upgrade
		another bool               // the portal leaves another node cordoned, too
		lost    bool               // the answer was lost, so the provider asks again, and is refused
		mark    func(*corev1.Node) // during the upgrade
		want    bool               // it stays cordoned
		says    string
	}
	cases(t, map[string]row{
		"by the portal":        {says: "made the node schedulable again"},
		"and another one":      {another: true, says: "made the node schedulable again"},
		"the answer was lost":  {lost: true, says: "made the node schedulable again"},
		"with Kubernetes mark": {mark: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, unschedulable) }, says: "made the node schedulable again"},
		"before the upgrade":   {earlier: true, want: true},
		"marked by another":    {mark: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) }, want: true, says: "It stays cordoned, because it has taint example.com/broken"},
		"not Ready":            {mark: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, want: true, says: "It stays cordoned, because it is not Ready"},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		f.manager.Recorder = &apart{EventRecorder: f.recorder, seen: map[string]bool{}, T: t}
		first, second := f.portal.Clusters()[0].Nodes[1].Name, f.portal.Clusters()[0].Nodes[2].Name
		f.cordon(second, test.earlier)
		pass := f.begin("upgrade", emulator.Fault{
			Job: emulator.JobFailsHalfway, JobNodes: 2, LeaveCordoned: true, Alert: true, Count: 1, Cut: test.lost, After: test.lost,
		})
		pass()
		time.Sleep(9 * time.Second)
		n := &corev1.Node{}
		if err := f.nodes.Get(t.Context(), client.ObjectKey{Name: second}, n); err != nil || !n.Spec.Unschedulable {
			t.Fatalf("%v: the portal did not leave the node cordoned", err)
		}
		f.cordon(first, test.another)
		if test.mark != nil {
			test.mark(n)
			status := n.DeepCopy()
			f.must(f.nodes.Update(t.Context(), n))
			n.Status = status.Status
			f.must(f.nodes.Status().Update(t.Context(), n))
		}
		f.events()
		f.liveBy(pass, time.Hour)
		if got, _ := f.cordoned(); slices.Contains(got, second) != test.want || slices.Contains(got, first) {
			t.Errorf("cordoned: %v", got)
		}
		told := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, second) })
		if test.says == "" && len(told) > 0 || test.says != "" && (len(told) != 1 || !strings.Contains(told[0], test.says)) {
			t.Errorf("events: %q", told)
		}
		// A person cordons the node after that. It stays so.
		f.cordon(second, true)
		f.liveBy(pass, time.Hour)
		if got, _ := f.cordoned(); !slices.Contains(got, second) {
			t.Error("a node that a person cordoned was made schedulable")
		}
	})
}

// TestFailedScaleLeavesNoNodeCordoned has a portal that drains another node than the provider expects. The drain fails, and so does the job.
// That node becomes schedulable. The one that the provider has drained for the scale-down does not.
func TestFailedScaleLeavesNoNodeCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeScale, Job: emulator.JobFails, Alert: true, Count: 1})
		oldest := f.portal.Clusters()[0].Nodes[1].Name
		f.scale(2)
		for len(f.answers("scale")) == 0 {
			f.liveBy(f.pass, 10*time.Second)
		}
		f.cordon(oldest, true)
		f.liveBy(f.pass, time.Hour)
		if cordoned, _ := f.cordoned(); len(cordoned) != 1 || cordoned[0] == oldest {
			f.Errorf("cordoned: %v, and the portal cordoned %s", cordoned, oldest)
		}
		if told := strings.Join(f.events(), "\n"); !strings.Contains(told, "failed and left worker node "+oldest+" cordoned") {
			f.Errorf("events: %s", told)
		}
	})
}

// liveBy makes such a pass every ten seconds for that long.
func (f *fixture) liveBy(pass func() *scope, span time.Duration) (s *scope) {
	f.Helper()
	for range span / (10 * time.Second) {
		s = pass()
		time.Sleep(10 * time.Second)
	}
	return s
}

// bounded checks how often the portal is asked to change a cluster that it refuses to change. In the first hour, the first retries come
// sooner, because the state may be short.
func (f *fixture) bounded(method string) {
	f.Helper()
	hours, all, first := make([]int, 6), make([]int, 6), time.Time{}
	for _, e := range f.portal.RequestLog() {
		refused := e.Code == emulator.CodeOperationNotAllowed && e.Method == method
		if refused && first.IsZero() {
			first = e.Time
		}
		if first.IsZero() || e.Method == "" {
			continue
		}
		hour := e.Time.Sub(first) / time.Hour
		all[hour]++
		if refused {
			hours[hour]++
		}
	}
	f.Logf("refused requests in each hour: %v, all requests: %v", hours, all)
	if hours[0] == 0 || hours[0] > 10 || slices.Max(hours[1:]) > 6 {
		f.Errorf("refused requests in each hour: %v", hours)
	}
}
