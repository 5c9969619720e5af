// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

const (
	routeUpgrade = "/kubernetes-clusters/*/upgrade"
	routeScale   = "/kubernetes-clusters/*/scale"
)

// TestLostUpgrade loses the answer to an upgrade in every way. VersionUpToDate stays False until all workers run the version. The
// upgrade counts as running while the portal is working on it, so that Machines stay shielded, and the portal gets one job. The
// last of the four nodes shows the version after 9 of the 12 minutes.
func TestLostUpgrade(t *testing.T) {
	unanswered := func(cp *infrav1.PortalControlPlane) bool { // the write that stores the job's id
		op := stateOf(cp).Last
		return op.Is(operation.Upgrade) && op.JobID != ""
	}
	tests := map[string]struct {
		fault  emulator.Fault
		killed func(*infrav1.PortalControlPlane) bool
		quiet  time.Duration // how long the upgrade waits before it is sent again
		again  bool          // whether it is: only if no node shows a sign of it
	}{
		"answered":              {},
		"cut after the work":    {fault: emulator.Fault{Cut: true, After: true}},
		"cut before the work":   {fault: emulator.Fault{Cut: true}, quiet: lifecycle.LostUpgradeTimeout, again: true},
		"job forgotten":         {fault: emulator.Fault{Job: emulator.JobForgotten}},
		"manager killed":        {killed: unanswered},
		"killed, job forgotten": {fault: emulator.Fault{Job: emulator.JobForgotten}, killed: unanswered},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{Upgrade: 12 * time.Minute})
				f.crash = test.killed
				if test.fault.Cut || test.fault.Job != "" {
					test.fault.Path, test.fault.Count = routeUpgrade, 1
					f.strike(test.fault)
				}
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				start := time.Now()
				for ; time.Since(start) < 30*time.Minute; time.Sleep(4 * time.Second) {
					ended := f.ended
					s := f.pass()
					busy := f.portal.Clusters()[0].State == emulator.ClusterUpgrading
					if c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition); c != nil && c.Status == metav1.ConditionTrue {
						break
					}
					if busy && ended == f.ended && !conditions.IsTrue(s.ControlPlane, clusterv1.RollingOutCondition) {
						t.Fatalf("after %s the upgrade does not count as running: %+v", time.Since(start), s.Last)
					}
				}
				if took := time.Since(start); !f.allRun(after) || took < 9*time.Minute+test.quiet || took > 14*time.Minute+test.quiet {
					t.Errorf("up to date after %s, while the workers run it: %v", took, f.allRun(after))
				}
				if answers := f.answers("upgrade"); f.jobs("upgrade") != 1 || (len(answers) > 1) != test.again {
					t.Errorf("%d upgrade jobs: answers %v", f.jobs("upgrade"), answers)
				}
			})
		})
	}
}

// jobs counts the jobs that the portal has started.
func (f *fixture) jobs(word string) (n int) {
	for _, e := range f.portal.RequestLog() {
		if e.Object == "job" && e.To == "pending" && strings.HasPrefix(e.Detail, word) {
			n++
		}
	}
	return n
}

// TestUpgradeNotWantedAnyMore: a lost upgrade without a visible effect ends when spec.version is set back.
func TestUpgradeNotWantedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeUpgrade, Count: 1, Cut: true})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.pass()
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = before })
		if s := f.pass(); !s.Op().Lost() || conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) {
			t.Errorf("an upgrade that may be running was dropped: %+v", s.Last)
		}
		time.Sleep(lifecycle.LostUpgradeTimeout + time.Second)
		s := f.pass()
		if s.Op() != nil || s.Last.Result != operation.Failed || !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) {
			t.Errorf("%+v, %+v", s.Last, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		if got := f.answers("upgrade"); len(got) != 1 {
			t.Errorf("asked again: %v", got)
		}
	})
}

// TestLostScale loses the answer to a scale in every way: the size is reached, with one job. The order of removal is set, so one
// request removes all surplus workers.
func TestLostScale(t *testing.T) {
	tests := map[string]emulator.Fault{
		"cut after the work":  {Cut: true, After: true},
		"cut before the work": {Cut: true},
		"job forgotten":       {Job: emulator.JobForgotten},
		"answer spoilt":       {Body: emulator.BodyHTML},
	}
	for title, fault := range tests {
		for direction, to := range map[string]int32{"up": 5, "down": 1} {
			t.Run(title+", "+direction, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, 3, emulator.Durations{Scale: 3 * time.Minute})
					f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
					fault.Path, fault.Count = routeScale, 1
					f.strike(fault)
					f.scale(to)
					s := f.passes(8*time.Minute, 4*time.Second)
					if s.Op() != nil || s.Last.Result != operation.Succeeded || s.Record.Size != int(to) || len(s.nodes.Workers) != int(to) {
						t.Errorf("%+v, size %d, %d nodes", s.Last, s.Record.Size, len(s.nodes.Workers))
					}
					if n := f.jobs("scale"); n != 1 {
						t.Errorf("%d jobs: %v", n, f.answers("scale"))
					}
				})
			})
		}
	}
}

// TestLostScaleIsDecidedAgain: the replicas change while it is unknown whether the portal scales. If the portal got the request,
// it is asked for the new sum when it has finished. If not, it is not asked for the old sum again.
func TestLostScaleIsDecidedAgain(t *testing.T) {
	for title, test := range map[string]struct {
		fault emulator.Fault
		busy  bool
		jobs  int
	}{
		"after the work":  {emulator.Fault{Cut: true, After: true}, true, 2},
		"before the work": {emulator.Fault{Cut: true}, false, 1},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{Scale: 3 * time.Minute})
				test.fault.Path, test.fault.Count = routeScale, 1
				f.strike(test.fault)
				f.scale(5)
				f.pass()
				f.scale(4)
				var s *scope
				for range 200 {
					if s = f.pass(); s.Op() == nil && len(s.nodes.Workers) == 4 && s.Record.Size == 4 {
						break
					}
					time.Sleep(4 * time.Second)
				}
				if len(s.nodes.Workers) != 4 || s.Record.Size != 4 || s.Op() != nil {
					t.Errorf("%d nodes, size %d, %+v", len(s.nodes.Workers), s.Record.Size, s.Last)
				}
				if got := f.answers("scale"); slices.Contains(got, "409") != test.busy || f.jobs("scale") != test.jobs {
					t.Errorf("%d jobs, answers %v", f.jobs("scale"), got)
				}
			})
		})
	}
}

// TestLostScaleCountsAsRunning: while the answer is lost, the plan is made as if the portal were removing nodes.
func TestLostScaleCountsAsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeScale, Cut: true})
		f.scale(2)
		for s := f.pass(); s.Op() == nil; s = f.pass() {
			time.Sleep(5 * time.Second) // the node to remove is drained first
		}
		for range 10 {
			s := f.pass()
			if !s.Op().RemovesNodes() || !conditions.IsTrue(s.ControlPlane, clusterv1.ScalingDownCondition) {
				t.Fatalf("%+v", s.Last)
			}
			if c := conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition); c.Reason != infrav1.AnswerLostReason || !strings.Contains(c.Message, "scale from 3 to 2 workers") {
				t.Fatalf("%+v", c)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// TestStuckUpgradeOfManyWorkers upgrades 40 workers, one every 4 minutes. The message counts them. After the 20th, the portal stops. The job
// is stuck 30 minutes later, not before, and not any more as soon as the portal goes on.
func TestStuckUpgradeOfManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 4 * time.Minute
		f := newFixture(t, 40, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeUpgrade, Job: emulator.JobStuck}) // the test upgrades the nodes
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.pass()
		all := f.workers()
		for i := range 20 {
			f.upgrade(&all[i])
			f.upgrading(i+1, false)
			time.Sleep(step)
		}
		time.Sleep(29*time.Minute - step)
		f.upgrading(20, false)
		time.Sleep(2 * time.Minute)
		f.upgrading(20, true)
		time.Sleep(time.Hour)
		f.upgrading(20, true)
		f.upgrade(&all[20])
		f.pass()
		time.Sleep(5 * time.Minute) // until the next poll of a stuck job
		f.upgrading(21, false)
	})
}

// upgrade has a kubelet report the version that the cluster is upgraded to.
func (f *fixture) upgrade(n *corev1.Node) {
	f.Helper()
	n.Status.NodeInfo.KubeletVersion = after
	if err := f.nodes.Status().Update(f.Context(), n); err != nil {
		f.Fatal(err)
	}
}

// upgrading checks after two passes, the first of which sees the nodes, how many of 40 workers are upgraded, and whether the job is stuck.
func (f *fixture) upgrading(count int, stuck bool) {
	f.Helper()
	f.pass()
	time.Sleep(10 * time.Second)
	s := f.pass()
	version, running := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition), conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition)
	if want := fmt.Sprintf("%d of 40 workers run %s", count, after); version.Reason != infrav1.UpgradingReason || !strings.HasSuffix(version.Message, want) {
		f.Errorf("%s: %s, want %s", version.Reason, version.Message, want)
	}
	if got := running.Reason == infrav1.JobStuckReason; got != stuck {
		f.Errorf("%d upgraded, stuck: %t, %s", count, got, running.Message)
	}
}

// TestAbandon ends a stuck scale with the command that the condition names. The provider decides again and waits for the portal.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeScale, Count: 1, Job: emulator.JobStuck})
		f.scale(5)
		f.pass()
		time.Sleep(31 * time.Minute)
		s := f.pass()
		c := conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition)
		command := "kubectl annotate portalcontrolplane prod -n default --overwrite " + infrav1.DecisionAnnotation + "=abandon:" + s.Op().ID
		if c.Reason != infrav1.JobStuckReason || !strings.HasSuffix(c.Message, command) {
			t.Fatalf("%+v", c)
		}
		f.events()
		abandon := func(id string) func(*infrav1.PortalControlPlane) {
			return func(cp *infrav1.PortalControlPlane) {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionAbandon.About(id))
			}
		}
		f.change(abandon("another"))
		if s = f.pass(); s.Op() == nil {
			t.Fatal("the annotation of another operation ends this one")
		}
		f.change(abandon(s.Op().ID))
		s = f.pass()
		if s.Op() != nil || s.Last.Result != operation.Abandoned || s.Record.Size != 5 || !s.Record.SizeUncertain {
			t.Errorf("%+v, %+v", s.Last, s.Record)
		}
		if _, left := s.ControlPlane.Annotations[infrav1.DecisionAnnotation]; left {
			t.Error("the annotation is still there")
		}
		if got := f.events(); len(got) != 1 || !strings.Contains(got[0], "Abandoned the scale from 3 to 5 workers") {
			t.Errorf("events %q", got)
		}
		if n := len(f.answers("scale")); n != 1 {
			t.Errorf("asked again at once: %d requests", n)
		}
		s = f.passes(80*time.Second, 4*time.Second)
		if got := f.answers("scale"); len(got) < 2 || got[1] != "409" || s.Last.Result != operation.Abandoned {
			t.Errorf("answers %v, %+v", got, s.Last)
		}
		f.portal.ClearFaults()
		s = f.passes(7*time.Minute, 4*time.Second)
		if s.Op() != nil || len(s.nodes.Workers) != 5 {
			t.Errorf("%+v, %+v, %d nodes", s.Last, s.Record, len(s.nodes.Workers))
		}
	})
}

// TestScaleAfterFailure checks that events do not claim to know how many workers there were: a job that failed may have added some.
func TestScaleAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.strike(emulator.Fault{Path: routeScale, Count: 1, Job: emulator.JobFails})
		f.scale(5)
		f.passes(7*time.Minute, 4*time.Second)
		if got := strings.Join(f.events(), "\n"); !strings.Contains(got, "for the scale from 3 to 5 workers failed") ||
			!strings.Contains(got, "Scaled from at most 5 to 5 workers") {
			t.Error(got)
		}
	})
}
