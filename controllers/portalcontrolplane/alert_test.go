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

// TestPortalRefusesUntilTheRepair fails an operation, and looks at the conditions and requests of the next six hours. After the repair,
// the operation is carried out.
func TestPortalRefusesUntilTheRepair(t *testing.T) {
	for operation, test := range map[string]struct {
		condition string
		reached   func(*fixture) bool
	}{
		"scale":   {infrav1.WorkersReadyCondition, func(f *fixture) bool { return f.portal.Clusters()[0].Size == 5 && len(f.workers()) == 5 }},
		"upgrade": {infrav1.VersionUpToDateCondition, func(f *fixture) bool { return f.portal.Clusters()[0].Version == after && f.allRun(after) }},
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				pass := f.begin(operation, emulator.Fault{
					ID: "fails", Job: emulator.JobFailsHalfway, Alert: true, LeaveCordoned: true, Count: 1, JobMessage: "a node could not be drained",
				})
				s := f.liveBy(pass, 20*time.Second)
				if c := conditions.Get(s.ControlPlane, test.condition); !strings.Contains(c.Message, "a node could not be drained") {
					t.Errorf("after the failure: %s: %s", c.Reason, c.Message)
				}
				s = f.liveBy(pass, 6*time.Hour)
				c := conditions.Get(s.ControlPlane, test.condition)
				for _, want := range []string{"is in state Alert", "the portal's operator has to repair"} {
					if c.Reason != infrav1.RefusedReason || !strings.Contains(c.Message, want) {
						t.Errorf("while the portal refuses: %s: %s", c.Reason, c.Message)
					}
				}
				f.bounded("POST")
				f.repaired()
				f.liveBy(pass, 15*time.Minute)
				if !test.reached(f) {
					t.Errorf("after the repair: %+v", f.portal.Clusters()[0])
				}
				f.showRequests()
			})
		})
	}
}

// TestDeletionWaitsForTheRepair deletes a cluster that the portal refuses to delete.
func TestDeletionWaitsForTheRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.strike(emulator.Fault{Method: "DELETE", Path: routeAnyCluster, State: emulator.ClusterAlert, Code: emulator.CodeOperationNotAllowed, Message: "it is in state Alert"})
		f.liveBy(f.begin("scale", emulator.Fault{Job: emulator.JobFails, Alert: true}), time.Minute)
		f.leave(departure{owner: "present", noted: "present"})
		s := f.liveBy(f.leaving, 6*time.Hour)
		c := conditions.Get(s.ControlPlane, clusterv1.DeletingCondition)
		for _, want := range []string{"it is in state Alert", "the portal's operator has to repair"} {
			if c.Reason != infrav1.RefusedReason || !strings.Contains(c.Message, want) {
				t.Errorf("while the portal refuses: %s: %s", c.Reason, c.Message)
			}
		}
		if got := strings.Join(f.events(), "\n"); !strings.Contains(got, "Warning "+infrav1.EventDeletionHeld) || !strings.Contains(got, "has to repair") {
			t.Errorf("events: %s", got)
		}
		f.bounded("DELETE")
		f.repaired()
		f.liveBy(f.leaving, 15*time.Minute)
		if left := f.portal.Clusters(); len(left) > 0 {
			t.Errorf("after the repair: %+v", left)
		}
		f.showRequests()
	})
}

// TestStuckJobEndsWithTheRepair has a scale that never ends. The provider sends nothing else until the portal's operator ends the job.
func TestStuckJobEndsWithTheRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		pass := f.begin("scale", emulator.Fault{Job: emulator.JobStuck, Alert: true, Count: 1})
		s := f.liveBy(pass, 6*time.Hour)
		if c := conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition); c.Reason != infrav1.JobStuckReason || !strings.Contains(c.Message, "portal's support") {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
		if asked := f.answers("scale"); len(asked) != 1 {
			t.Errorf("requests to scale: %s", asked)
		}
		f.repaired()
		f.liveBy(pass, 10*time.Minute)
		if cl := f.portal.Clusters()[0]; cl.Size != 5 {
			t.Errorf("after the repair: %+v", cl)
		}
		f.showRequests()
	})
}

// TestFailedUpgradeLeavesNoNodeCordoned checks which nodes become schedulable after an upgrade that failed at the second worker.
func TestFailedUpgradeLeavesNoNodeCordoned(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		earlier bool               // the node was cordoned before the upgrade
		lost    bool               // the answer was lost, so the provider asks again, and is refused
		mark    func(*corev1.Node) // during the upgrade
		want    bool               // it stays cordoned
		says    string
	}{
		"by the portal":        {says: "made the node schedulable again"},
		"the answer was lost":  {lost: true, says: "made the node schedulable again"},
		"with Kubernetes mark": {mark: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, unschedulable) }, says: "made the node schedulable again"},
		"before the upgrade":   {earlier: true, want: true},
		"marked by another":    {mark: func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) }, want: true, says: "It stays cordoned, because it has taint example.com/broken"},
		"not Ready":            {mark: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, want: true, says: "It stays cordoned, because it is not Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				second := f.portal.Clusters()[0].Nodes[2].Name
				cordon := func(on bool) {
					if err := (workloads{f.nodes}).Cordon(t.Context(), "", second, on); err != nil {
						t.Fatal(err)
					}
				}
				cordon(test.earlier)
				pass := f.begin("upgrade", emulator.Fault{
					Job: emulator.JobFailsHalfway, JobNodes: 2, LeaveCordoned: true, Alert: true, Count: 1, Cut: test.lost, After: test.lost,
				})
				pass()
				time.Sleep(9 * time.Second)
				n := &corev1.Node{}
				if err := f.nodes.Get(t.Context(), client.ObjectKey{Name: second}, n); err != nil || !n.Spec.Unschedulable {
					t.Fatalf("%v: the portal did not leave the node cordoned", err)
				}
				if test.mark != nil {
					test.mark(n)
					status := n.DeepCopy()
					if err := f.nodes.Update(t.Context(), n); err != nil {
						t.Fatal(err)
					}
					n.Status = status.Status
					if err := f.nodes.Status().Update(t.Context(), n); err != nil {
						t.Fatal(err)
					}
				}
				f.events()
				f.liveBy(pass, time.Hour)
				cordoned := func() (names []string) {
					for _, n := range f.workers() {
						if n.Spec.Unschedulable {
							names = append(names, n.Name)
						}
					}
					return names
				}
				if got := cordoned(); slices.Contains(got, second) != test.want || len(got) > 1 {
					t.Errorf("cordoned: %v", got)
				}
				told := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, second) })
				if test.says == "" && len(told) > 0 || test.says != "" && (len(told) != 1 || !strings.Contains(told[0], test.says)) {
					t.Errorf("events: %q", told)
				}
				// A person cordons the node after that. It stays so.
				cordon(true)
				f.liveBy(pass, time.Hour)
				if got := cordoned(); !slices.Contains(got, second) {
					t.Error("a node that a person cordoned was made schedulable")
				}
			})
		})
	}
}

// TestFailedScaleLeavesNoNodeCordoned has a portal that drains another node than the provider expects. The drain fails, and so does the job.
// That node becomes schedulable. The one that the provider has drained for the scale-down does not.
func TestFailedScaleLeavesNoNodeCordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeScale, Job: emulator.JobFails, Alert: true, Count: 1})
		oldest := f.portal.Clusters()[0].Nodes[1].Name
		f.scale(2)
		for len(f.answers("scale")) == 0 {
			f.liveBy(f.pass, 10*time.Second)
		}
		if err := (workloads{f.nodes}).Cordon(t.Context(), "", oldest, true); err != nil {
			t.Fatal(err)
		}
		f.liveBy(f.pass, time.Hour)
		cordoned := []string{}
		for _, n := range f.workers() {
			if n.Spec.Unschedulable {
				cordoned = append(cordoned, n.Name)
			}
		}
		if len(cordoned) != 1 || cordoned[0] == oldest {
			t.Errorf("cordoned: %v, and the portal cordoned %s", cordoned, oldest)
		}
		if told := strings.Join(f.events(), "\n"); !strings.Contains(told, "failed and left worker node "+oldest+" cordoned") {
			t.Errorf("events: %s", told)
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

// repaired has the portal's operator repair the cluster.
func (f *fixture) repaired() {
	f.Helper()
	if err := f.portal.Repair(f.id); err != nil {
		f.Fatal(err)
	}
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

// showRequests logs the changes that were asked for, and the states of the cluster.
func (f *fixture) showRequests() {
	for _, e := range f.portal.RequestLog() {
		if e.IsChange() || e.Object == "cluster" {
			f.Log(e.Time.Format(time.TimeOnly), e)
		}
	}
}

// TestTwoCordonedNodes checks that each of two nodes that a failed upgrade left cordoned has an event.
func TestTwoCordonedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.manager.Recorder = &apart{EventRecorder: f.recorder, seen: map[string]bool{}, T: t}
		pass := f.begin("upgrade", emulator.Fault{Job: emulator.JobFailsHalfway, JobNodes: 2, LeaveCordoned: true, Alert: true, Count: 1})
		pass()
		time.Sleep(9 * time.Second)
		if err := (workloads{f.nodes}).Cordon(t.Context(), "", f.portal.Clusters()[0].Nodes[1].Name, true); err != nil {
			t.Fatal(err)
		}
		f.events()
		f.liveBy(pass, time.Hour)
		if restored := strings.Count(strings.Join(f.events(), "\n"), "made the node schedulable again"); restored != 2 {
			t.Errorf("%d nodes were made schedulable, want 2", restored)
		}
	})
}
