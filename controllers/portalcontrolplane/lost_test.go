// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
	type row struct {
		fault  emulator.Fault
		killed func(*infrav1.PortalControlPlane) bool
		quiet  time.Duration // how long the upgrade waits before it is sent again
		again  bool          // whether it is: only if no node shows a sign of it
	}
	cases(t, map[string]row{
		"answered":              {},
		"cut after the work":    {fault: emulator.Fault{Cut: true, After: true}},
		"cut before the work":   {fault: emulator.Fault{Cut: true}, quiet: lifecycle.LostUpgradeTimeout, again: true},
		"job forgotten":         {fault: emulator.Fault{Job: emulator.JobForgotten}},
		"manager killed":        {killed: unanswered},
		"killed, job forgotten": {fault: emulator.Fault{Job: emulator.JobForgotten}, killed: unanswered},
	}, func(t *testing.T, test row) {
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
	live(t, 2, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeUpgrade, Count: 1, Cut: true})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.pass()
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = before })
		if s := f.pass(); !s.Op().Lost() || conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) {
			f.Errorf("an upgrade that may be running was dropped: %+v", s.Last)
		}
		time.Sleep(lifecycle.LostUpgradeTimeout + time.Second)
		s := f.pass()
		if s.Op() != nil || s.Last.Result != operation.Failed || !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) {
			f.Errorf("%+v, %+v", s.Last, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		if got := f.answers("upgrade"); len(got) != 1 {
			f.Errorf("asked again: %v", got)
		}
	})
}

// TestStuckUpgrade upgrades three workers, the first of which takes 20 minutes. Then the portal stops. The job is stuck 30 minutes later, not before,
// and not any more as soon as the portal goes on. The message counts the workers.
func TestStuckUpgrade(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeUpgrade, Job: emulator.JobStuck}) // the test upgrades the nodes
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		for _, step := range []struct {
			span        time.Duration
			count       int // of workers that run the version at its end
			stuck, next bool
		}{
			{span: 20 * time.Minute, next: true}, {span: 29 * time.Minute, count: 1}, {span: 2 * time.Minute, count: 1, stuck: true},
			{span: time.Hour, count: 1, stuck: true, next: true}, {span: 6 * time.Minute, count: 2},
		} {
			cp := f.passes(step.span, 10*time.Second).ControlPlane
			version, running := conditions.Get(cp, infrav1.VersionUpToDateCondition), conditions.Get(cp, infrav1.OperationInProgressCondition)
			if want := fmt.Sprintf("%d of 3 workers run %s", step.count, after); version.Reason != infrav1.UpgradingReason || !strings.HasSuffix(version.Message, want) {
				f.Errorf("%s: %s, want %s", version.Reason, version.Message, want)
			}
			if got := running.Reason == infrav1.JobStuckReason; got != step.stuck {
				f.Errorf("%d upgraded, stuck: %t, %s", step.count, got, running.Message)
			}
			if n := &f.workers()[step.count]; step.next {
				n.Status.NodeInfo.KubeletVersion = after
				f.must(f.nodes.Status().Update(f.Context(), n))
			}
		}
	})
}

// TestAbandon ends a stuck scale with the command that the condition names. The provider decides again and waits for the portal.
func TestAbandon(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeScale, Count: 1, Job: emulator.JobStuck})
		f.scale(5)
		f.pass()
		time.Sleep(31 * time.Minute)
		s := f.pass()
		c := conditions.Get(s.ControlPlane, infrav1.OperationInProgressCondition)
		command := "kubectl annotate portalcontrolplane prod -n default --overwrite " + infrav1.DecisionAnnotation + "=abandon:" + s.Op().ID
		if c.Reason != infrav1.JobStuckReason || !strings.HasSuffix(c.Message, command) {
			f.Fatalf("%+v", c)
		}
		f.change(func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionAbandon.About(s.Op().ID))
		})
		s = f.pass()
		if s.Op() != nil || s.Last.Result != operation.Abandoned || s.Record.Size != 5 || !s.Record.SizeUncertain {
			f.Errorf("%+v, %+v", s.Last, s.Record)
		}
		if n := len(f.answers("scale")); n != 1 {
			f.Errorf("asked again at once: %d requests", n)
		}
		s = f.passes(80*time.Second, 4*time.Second)
		if got := f.answers("scale"); len(got) < 2 || got[1] != "409" || s.Last.Result != operation.Abandoned {
			f.Errorf("answers %v, %+v", got, s.Last)
		}
		f.portal.ClearFaults()
		s = f.passes(7*time.Minute, 4*time.Second)
		if s.Op() != nil || len(s.nodes.Workers) != 5 {
			f.Errorf("%+v, %+v, %d nodes", s.Last, s.Record, len(s.nodes.Workers))
		}
	})
}

// scales records what the portal is asked to scale to.
type scales struct {
	http.RoundTripper
	asked []string
}

// RoundTrip implements http.RoundTripper.
func (p *scales) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/scale") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		p.asked = append(p.asked, string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return p.RoundTripper.RoundTrip(r)
}

// TestScaleThatWasUnavailable: the portal answers a scale with a 503, and may have done it all the same. Until the workers have been
// counted, the portal is asked for the wanted number and for no other one.
func TestScaleThatWasUnavailable(t *testing.T) {
	type row struct {
		done    bool
		to, now int32 // the replicas at the request, and a minute later
		want    string
	}
	cases(t, map[string]row{
		"down, done":             {true, 2, 2, `{"size":2}`},
		"down, not done":         {false, 2, 2, `{"size":2}`},
		"up, done":               {true, 8, 8, `{"size":8}`},
		"up, not done":           {false, 8, 8, `{"size":8}`},
		"up, done, not wanted":   {true, 8, 5, `{"size":8} {"size":5}`},
		"down, done, not wanted": {true, 2, 5, `{"size":2} {"size":5}`},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 5, emulator.Durations{Scale: 6 * time.Minute})
		f.nodes.apart = time.Minute
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		portal := &scales{RoundTripper: f.portal.Transport()}
		f.cloud = newCloud(t, "https://portal.example", portal)
		f.strike(emulator.Fault{Path: routeScale, Status: http.StatusServiceUnavailable, After: test.done, Count: 1})
		f.pass()
		f.scale(test.to)
		for start := time.Now(); time.Since(start) < 30*time.Minute; time.Sleep(9 * time.Second) {
			f.pass()
			if len(portal.asked) == 1 {
				f.scale(test.now)
			}
		}
		var asked []string
		for _, size := range portal.asked {
			if len(asked) == 0 || asked[len(asked)-1] != size {
				asked = append(asked, size)
			}
		}
		if got := strings.Join(asked, " "); got != test.want {
			t.Errorf("asked for %s, want %s", strings.Join(portal.asked, " "), test.want)
		}
		if s := f.pass(); s.Record.Size != int(test.now) || s.Record.SizeUncertain || len(s.nodes.Workers) != int(test.now) {
			t.Errorf("%d nodes, %+v", len(s.nodes.Workers), s.Record)
		}
	})
}
