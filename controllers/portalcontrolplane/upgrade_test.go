// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestUpgradeSaysWhatMayStopIt has a Pod without a controller, or an API server that does not list Pods. The portal is asked for the upgrade all the
// same, and one event and the condition say what may stop it.
func TestUpgradeSaysWhatMayStopIt(t *testing.T) {
	cases(t, map[string]string{
		"a bare Pod": "Pods without a controller: default/debug", "no look at all": "Pods that cannot be listed",
	}, func(t *testing.T, want string) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute})
		f.pod("debug", f.workers()[0].Name)
		if want == "Pods that cannot be listed" {
			f.failsToList()
		}
		f.upgrade(after)
		o := f.passes(time.Minute, 10*time.Second).outcomes[infrav1.VersionUpToDateCondition]
		if n := len(f.answers("upgrade")); n != 1 || !says(o, infrav1.UpgradingReason, want) {
			t.Errorf("%d requests: %+v", n, o)
		}
		told := slices.DeleteFunc(f.events(), func(event string) bool {
			return !strings.HasPrefix(event, "Warning "+infrav1.EventUpgradeObstacles) || !strings.Contains(event, want)
		})
		if len(told) != 1 {
			t.Errorf("%d events name it", len(told))
		}
		if s := f.passes(10*time.Minute, 10*time.Second); !s.done(infrav1.VersionUpToDateCondition) {
			t.Errorf("the upgrade has not ended: %+v", s.Last)
		}
	})
}

// TestUpgradeIsHeld has a Pod without a controller, and a user who wants such upgrades to be held. When the Pod is gone, the upgrade begins.
func TestUpgradeIsHeld(t *testing.T) {
	live(t, 2, func(f *fixture) {
		pod := f.pod("debug", f.workers()[0].Name)
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.Version, cp.Spec.UpgradePrecheck = after, infrav1.UpgradePrecheckHold
		})
		o := f.passes(6*time.Hour, time.Minute).outcomes[infrav1.VersionUpToDateCondition]
		if n := len(f.answers("upgrade")); n != 0 || !says(o, infrav1.UpgradeHeldReason, "default/debug") {
			f.Errorf("%d requests: %+v", n, o)
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
		f.protectPods("db-0", "db-1", "db-2")
		f.scale(2)
		f.passes(5*time.Minute, 10*time.Second)
		cordoned, _ := f.cordoned()
		if len(cordoned) != 1 {
			f.Fatalf("drained: %v", cordoned)
		}
		f.upgrade(after)
		o := f.passes(time.Hour, 10*time.Second).outcomes[infrav1.VersionUpToDateCondition]
		if n := len(f.answers("upgrade")); n != 0 || !says(o, infrav1.WaitingForOperationReason, "Node "+cordoned[0]) {
			f.Errorf("%d requests to upgrade during the drain: %+v", n, o)
		}
		f.scale(3)
		if f.passes(15*time.Minute, 10*time.Second); !f.allRun(after) || len(f.answers("upgrade")) != 1 {
			f.Errorf("%d requests to upgrade after the scale-down was given up", len(f.answers("upgrade")))
		}
	})
}

// pod creates a Pod without a controller on a worker.
func (f *fixture) pod(name, node string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	f.must(f.nodes.Create(f.Context(), pod))
	return pod
}

// protectPods creates a Pod on a worker for each name, and starts a manager that may evict none.
func (f *fixture) protectPods(names ...string) {
	f.Helper()
	f.must(f.nodes.Create(f.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	for i, name := range names {
		f.pod(name, f.workers()[i].Name)
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	f.nodes.WithWatch = interceptor.NewClient(f.nodes.WithWatch, interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return refusal
		},
	})
	f.restart()
}

// failsToList starts a manager for which the workload cluster lists Nodes only.
func (f *fixture) failsToList() {
	f.nodes.WithWatch = interceptor.NewClient(f.nodes.WithWatch, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch list.(type) {
			case *corev1.PodList, *policyv1.PodDisruptionBudgetList:
				return errors.New("the API server is overloaded")
			}
			return c.List(ctx, list, opts...)
		},
	})
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
		v.version = v.f.nodes.answer("")
	}
	return last
}

// TestUpgradeIsSentOnce upgrades a cluster. In every pass the API server's answer is as old as the interval between passes. If the pass that sees the
// end of the upgrade used an answer from before, it would send the upgrade again, and the portal would replace every node a second time.
func TestUpgradeIsSentOnce(t *testing.T) {
	for title, outage := range map[string]emulator.Fault{
		"": {Delay: time.Millisecond}, ", late answers": {Delay: 10 * time.Second}, ", no answers": {Cut: true, For: 10 * time.Second},
	} {
		cases(t, map[string]time.Duration{"every second" + title: time.Second, "every 11 s" + title: 11 * time.Second, "every 29 s" + title: 29 * time.Second},
			func(t *testing.T, every time.Duration) {
				f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute})
				f.workloads.version = (&staleVersion{f: f}).answer
				outage.Method, outage.Path = "GET", "/jobs/*"
				f.strike(outage)
				f.upgrade(after)
				s := f.passes(5*time.Minute, every)
				if !s.done(infrav1.VersionUpToDateCondition) || s.Record.Version != after || !f.allRun(after) || len(f.answers("upgrade")) != 1 {
					t.Errorf("requests for one upgrade: %v; %+v", f.answers("upgrade"), s.outcomes[infrav1.VersionUpToDateCondition])
				}
			})
	}
}

// installed returns what the portal says that all nodes run, or "" if they differ.
func (f *fixture) installed() (version string) {
	for i, n := range f.portal.Clusters()[0].Nodes {
		if i > 0 && n.Version != version {
			return ""
		}
		version = n.Version
	}
	return version
}

// want sets spec.version and takes passes for 20 minutes. While the step is done, the portal has installed the version.
func (f *fixture) want(version string) *scope {
	f.Helper()
	f.upgrade(version)
	return f.liveBy(func() *scope {
		s := f.pass()
		if s.done(infrav1.VersionUpToDateCondition) && lifecycle.Equivalent(version, f.installed()) != version {
			f.Fatalf("up to date with %s, and the nodes run %q", version, f.installed())
		}
		return s
	}, 20*time.Minute)
}

// TestNewBuild takes a cluster from build to build of one release. Each build is installed with one request, whether the API server
// and the kubelets show the portal's builds, none, or others. A build that they do not show is reported.
func TestNewBuild(t *testing.T) {
	noBuild := func(version string) string { v, _, _ := strings.Cut(version, "+"); return v }
	type row struct {
		shows  func(string) string
		status string // or "", if it is the version that is wanted
		advice string
	}
	cases(t, map[string]row{
		"shown":       {},
		"not shown":   {shows: noBuild, advice: "set spec.version and those of the MachineDeployments to " + after},
		"never shown": {func(v string) string { return noBuild(v) + "+k3s1" }, after + "+k3s1", "Set spec.version to " + after + "+k3s1"},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute}, emulator.Version{SemanticVersion: before},
			emulator.Version{SemanticVersion: after + "+p1"}, emulator.Version{SemanticVersion: after + "+p2"})
		f.nodes.shows = test.shows
		for i, version := range []string{after + "+p1", after + "+p2", after + "+p1"} {
			s := f.want(version)
			if n := len(f.answers("upgrade")); f.installed() != version || n != i+1 {
				t.Errorf("the nodes run %q after %d requests, want %s after %d", f.installed(), n, version, i+1)
			}
			if o := s.outcomes[infrav1.VersionUpToDateCondition]; o.IsDone() != (test.advice == "") || !strings.Contains(o.Message, test.advice) {
				t.Errorf("%s is wanted: %+v", version, o)
			}
			if status := s.ControlPlane.Status.Version; status != cmp.Or(test.status, version) {
				t.Errorf("%s is wanted: status %s", version, status)
			}
		}
		if s := f.want(after); s.ControlPlane.Status.Version != after || *s.ControlPlane.Status.UpToDateReplicas != *s.ControlPlane.Status.Replicas {
			t.Errorf("any build: status %+v", s.ControlPlane.Status)
		}
		if n := len(f.answers("upgrade")); n != 3 {
			t.Errorf("%d requests for three upgrades", n)
		}
	})
}

// TestBuildNotOffered wants a build that the portal does not have. The cluster is not reported to run it, and what it runs is named.
func TestBuildNotOffered(t *testing.T) {
	type row struct {
		offered, shown string
		upgraded       bool // the cluster runs the release already
	}
	cases(t, map[string]row{
		"another build":                {after + "+p1", after + "+p1", true},
		"the list leaves it open":      {after, after + "+p1", true},
		"to a release of which is one": {after, after + "+p1", false},
	}, func(t *testing.T, test row) {
		const wanted = after + "+p2"
		f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before}, emulator.Version{SemanticVersion: test.offered})
		f.nodes.shows = func(v string) string { return strings.ReplaceAll(v, test.offered, test.shown) }
		if test.upgraded {
			f.want(test.shown)
		}
		s := f.want(wanted)
		o := s.outcomes[infrav1.VersionUpToDateCondition]
		if !says(o, infrav1.VersionNotOfferedReason, test.offered) || s.ControlPlane.Status.Version != test.shown {
			t.Errorf("status %s, %+v", s.ControlPlane.Status.Version, o)
		}
		if s := f.want(test.shown); !s.done(infrav1.VersionUpToDateCondition) || s.ControlPlane.Status.Version != test.shown {
			t.Errorf("after the advice was followed: status %s, %+v", s.ControlPlane.Status.Version, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		if o := f.want(before).outcomes[infrav1.VersionUpToDateCondition]; !says(o, infrav1.VersionNotOfferedReason, "does not downgrade") {
			t.Errorf("a downgrade: %+v", o)
		}
		if n := len(f.answers("upgrade")); n != 1 {
			t.Errorf("%d requests for one upgrade", n)
		}
	})
}

// TestDisabledVersion: the portal lists the version twice and refuses the first entry. The next request names the other entry. If
// the portal refuses both, the requests back off.
func TestDisabledVersion(t *testing.T) {
	cases(t, map[string]bool{"the first entry": false, "both entries": true}, func(t *testing.T, bothRefused bool) {
		f := newFixture(t, 1, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before},
			emulator.Version{SemanticVersion: after, State: "Disabled", Refused: true},
			emulator.Version{SemanticVersion: after, Refused: bothRefused})
		f.upgrade(after)
		s := f.passes(30*time.Minute, 5*time.Second)
		if upgraded := s.done(infrav1.VersionUpToDateCondition) && f.allRun(after); upgraded == bothRefused {
			t.Errorf("upgraded: %v; %+v", upgraded, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		if n := len(f.answers("upgrade")); bothRefused && n > 11 || !bothRefused && n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestLostUpgrade loses the answer to an upgrade. The upgrade counts as running while the portal is working on it, so that Machines stay shielded, and
// the portal gets one job. The last of the four nodes shows the version after 9 of the 12 minutes.
func TestLostUpgrade(t *testing.T) {
	type row struct {
		fault emulator.Fault
		quiet time.Duration // how long the upgrade waits before it is sent again
		again bool          // whether it is: only if no node shows a sign of it
	}
	cases(t, map[string]row{
		"cut after the work":  {fault: emulator.Fault{Cut: true, After: true}},
		"cut before the work": {fault: emulator.Fault{Cut: true}, quiet: lifecycle.LostUpgradeTimeout, again: true},
		"job forgotten":       {fault: emulator.Fault{Job: emulator.JobForgotten}},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{Upgrade: 12 * time.Minute})
		test.fault.Count = 1
		pass, start := f.begin("upgrade", test.fault), time.Now()
		for s := pass(); !s.done(infrav1.VersionUpToDateCondition) && time.Since(start) < 30*time.Minute; s = pass() {
			if busy := f.portal.Clusters()[0].State == emulator.ClusterUpgrading; busy && !conditions.IsTrue(s.ControlPlane, clusterv1.RollingOutCondition) {
				t.Fatalf("after %s the upgrade does not count as running: %+v", time.Since(start), s.Last)
			}
			time.Sleep(4 * time.Second)
		}
		if took := time.Since(start); !f.allRun(after) || took < 9*time.Minute+test.quiet || took > 14*time.Minute+test.quiet {
			t.Errorf("up to date after %s, while the workers run it: %v", took, f.allRun(after))
		}
		answers, jobs := f.answers("upgrade"), emulator.ClusterChanges(f.portal.RequestLog())[1:]
		if len(jobs) != 1 || (len(answers) > 1) != test.again {
			t.Errorf("upgrade jobs %v: answers %v", jobs, answers)
		}
	})
}

// TestUpgradeNotWantedAnyMore: a lost upgrade without a visible effect ends when spec.version is set back.
func TestUpgradeNotWantedAnyMore(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.begin("upgrade", emulator.Fault{Count: 1, Cut: true})()
		f.upgrade(before)
		if s := f.pass(); !s.Op().Lost() || s.done(infrav1.VersionUpToDateCondition) {
			f.Errorf("an upgrade that may be running was dropped: %+v", s.Last)
		}
		time.Sleep(lifecycle.LostUpgradeTimeout + time.Second)
		if s := f.pass(); s.Op() != nil || s.Last.Result != operation.Failed || !s.done(infrav1.VersionUpToDateCondition) || len(f.answers("upgrade")) != 1 {
			f.Errorf("%+v, %+v, answers %v", s.Last, s.outcomes[infrav1.VersionUpToDateCondition], f.answers("upgrade"))
		}
	})
}

// TestStuckUpgrade upgrades three workers, the first of which takes 20 minutes. Then the portal stops. The job is stuck 30 minutes later, not before,
// and not any more as soon as the portal goes on. The message counts the workers.
func TestStuckUpgrade(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.begin("upgrade", emulator.Fault{Job: emulator.JobStuck}) // the test upgrades the nodes
		for _, step := range []struct {
			span        time.Duration
			count       int // of workers that run the version at its end
			stuck, next bool
		}{
			{span: 20 * time.Minute, next: true}, {span: 29 * time.Minute, count: 1}, {span: 2 * time.Minute, count: 1, stuck: true},
			{span: time.Hour, count: 1, stuck: true, next: true}, {span: 6 * time.Minute, count: 2},
		} {
			outcomes := f.passes(step.span, 10*time.Second).outcomes
			version, running := outcomes[infrav1.VersionUpToDateCondition], outcomes[infrav1.OperationInProgressCondition]
			if want := fmt.Sprintf("%d of 3 workers run %s", step.count, after); version.Reason != infrav1.UpgradingReason || !strings.HasSuffix(version.Message, want) {
				f.Errorf("%s: %s, want %s", version.Reason, version.Message, want)
			}
			if got := running.Reason == infrav1.JobStuckReason; got != step.stuck {
				f.Errorf("%d upgraded, stuck: %t, %s", step.count, got, running.Message)
			}
			if step.next {
				f.changeNode(f.workers()[step.count].Name, func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = after })
			}
		}
	})
}

// TestAbandon ends a stuck scale with the command that the condition names. The provider decides again and waits for the portal.
func TestAbandon(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.begin("scale", emulator.Fault{Count: 1, Job: emulator.JobStuck})()
		time.Sleep(31 * time.Minute)
		s := f.pass()
		abandon := infrav1.DecisionAbandon.About(s.Op().ID)
		c := conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition)
		command := "kubectl annotate portalcontrolplane prod -n default --overwrite " + infrav1.DecisionAnnotation + "=" + abandon
		if c.Reason != infrav1.JobStuckReason || !strings.HasSuffix(c.Message, command) {
			f.Fatalf("%+v", c)
		}
		f.decide(abandon)
		if s = f.pass(); s.Op() != nil || s.Last.Result != operation.Abandoned || s.Record.Size != 5 || !s.Record.SizeUncertain || len(f.answers("scale")) != 1 {
			f.Errorf("%+v, %+v, answers %v", s.Last, s.Record, f.answers("scale"))
		}
		f.passes(80*time.Second, 4*time.Second)
		if got := f.answers("scale"); len(got) < 2 || got[1] != "409" {
			f.Errorf("answers %v", got)
		}
		f.portal.ClearFaults()
		if s = f.passes(7*time.Minute, 4*time.Second); s.Op() != nil || len(s.nodes.Workers) != 5 {
			f.Errorf("%+v, %+v, %d nodes", s.Last, s.Record, len(s.nodes.Workers))
		}
	})
}
