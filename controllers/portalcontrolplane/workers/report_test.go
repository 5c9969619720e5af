// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// TestReport checks the log and the events of writes that were made.
func TestReport(t *testing.T) {
	at := time.Unix(1, 0)
	node := func(step claims.Step, seen, want claims.DrainState) claims.Write {
		n := claims.Node{NodeID: claims.NodeID{Name: "n1"}}
		return claims.Write{Step: step, Why: "reason", Node: claims.Change[claims.Node]{
			Seen: claims.Node{NodeID: claims.NodeID{Name: n.Name}, DrainState: seen}, Want: claims.Node{NodeID: claims.NodeID{Name: n.Name}, DrainState: want}}}
	}
	machine := func(step claims.Step, change func(*claims.Machine)) claims.Write {
		seen := claims.Machine{Name: "m1", Claim: claims.NodeID{Name: "n1", UID: "uid-n1", ProviderID: "portal://c/n1"}, NodeRef: "n1", PreDrain: true, PreTerminate: true}
		want := seen
		change(&want)
		return claims.Write{Step: step, Why: "reason", Machine: claims.Change[claims.Machine]{Seen: seen, Want: want}}
	}
	tests := map[string]struct {
		write       claims.Write
		logs, event string
	}{
		"core may drain": {
			machine(claims.WriteMachine, func(m *claims.Machine) { m.PreDrain = false }), "Let core drain the Node m1 n1 reason",
			"Normal NodeDrainStarted Core drains Node n1 for Machine m1: reason"},
		"the provider begins": {
			node(claims.DrainNode, claims.DrainState{}, claims.DrainState{Cordoned: true, DrainStarted: at}), "Began to drain the Node  n1 reason",
			"Normal NodeDrainStarted The provider drains Node n1: reason"},
		"it evicts Pods": {node(claims.DrainNode, claims.DrainState{Cordoned: true, DrainStarted: at}, claims.DrainState{Cordoned: true, DrainStarted: at}), "", ""},
		"it has drained": {
			node(claims.DrainNode, claims.DrainState{Cordoned: true, DrainStarted: at}, claims.DrainState{Cordoned: true, Drained: at}),
			"Recorded that the drain has ended  n1 reason", "Normal NodeDrainEnded The drain of Node n1 has ended: reason"},
		"core has": {
			node(claims.WriteNode, claims.DrainState{Cordoned: true}, claims.DrainState{Cordoned: true, Drained: at}),
			"Recorded that the drain has ended  n1 reason", "Normal NodeDrainEnded The drain of Node n1 has ended: reason"},
		"the node stays": {
			node(claims.WriteNode, claims.DrainState{Cordoned: true, Drained: at}, claims.DrainState{}), "Made the Node schedulable  n1 reason",
			"Normal NodeDrainEnded Node n1 takes Pods again: reason"},
		"another Node": {
			machine(claims.WriteClaim, func(m *claims.Machine) { m.Claim.Name, m.Claim.UID = "n2", "uid-n2" }), "Moved the Machine to another Node m1 n2 reason",
			"Normal MachineMoved Machine m1 moved from Node n1 to Node n2: reason"},
		"a write that was not made": {machine(claims.WriteClaim, func(*claims.Machine) {}), "", ""},
		"nothing that a user watches": {
			machine(claims.WriteMachine, func(m *claims.Machine) { m.DeleteFirst = true }), "Marked the Machine to be deleted first m1 n1 reason", ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var logs []string
			log := funcr.NewJSON(func(line string) { logs = append(logs, line) }, funcr.Options{})
			recorder := events.NewFakeRecorder(10)
			p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Tools: pass.Tools{Recorder: recorder}}
			report(ctrl.LoggerInto(t.Context(), log), p, test.write)
			if diff := cmp.Diff(test.logs, plain(logs)); diff != "" {
				t.Errorf("log: %s", diff)
			}
			if diff := cmp.Diff(test.event, strings.Join(emitted(recorder), ", ")); diff != "" {
				t.Errorf("events: %s", diff)
			}
		})
	}
}

// plain returns the values of a log line.
func plain(logs []string) string {
	line := strings.Join(logs, "\n")
	for _, key := range []string{`{"logger":"","level":0,"msg":"`, `"Machine":"`, `"Node":"`, `"why":"`} {
		line = strings.Replace(line, key, "", 1)
	}
	return strings.TrimSuffix(strings.ReplaceAll(line, `",`, " "), `"}`)
}

func emitted(recorder *events.FakeRecorder) (all []string) {
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return all
}

// TestReportBlocked: Pods that begin to block a drain make one event, however many passes see them. The condition of the last pass is the
// memory, so it must show them.
func TestReportBlocked(t *testing.T) {
	const budget = ": cannot evict pod as it would violate the pod's disruption budget."
	const one, other = "Pod default/web-0" + budget, "Pod default/web-1" + budget
	tests := map[string]struct {
		drains []string // of one Node, pass by pass
		hidden bool     // the condition shows something else
		want   []string
	}{
		"Pods that go":                {drains: []string{"Pod default/web-0: deletionTimestamp set, but still not removed from the Node", "Pod default/web-1: waiting for completion"}},
		"once":                        {drains: []string{one, one, one}, want: []string{one}},
		"the budget's numbers change": {drains: []string{one + " It needs 2", one + " It needs 1"}, want: []string{one + " It needs 2"}},
		"another Pod":                 {drains: []string{one, one + "; " + other, other}, want: []string{one, other}},
		"again later":                 {drains: []string{one, "", one}, want: []string{one, one}},
		"any other fault":             {drains: []string{"Pod default/web-0: failed to evict Pod, it has two budgets"}, want: []string{"Pod default/web-0: failed to evict Pod, it has two budgets"}},
		"not shown":                   {drains: []string{one, one}, hidden: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Tools: pass.Tools{Recorder: recorder}}
			for _, waits := range test.drains {
				o := outcome.WaitFor(0, infrav1.DrainingReason, "draining 1 worker nodes: n1 (%s)", waits)
				if test.hidden {
					o = outcome.WaitFor(0, infrav1.ScalingDownReason, "waiting for the portal")
				}
				reportBlocked(p, nil, map[string]string{"n1": waits}, o)
				outcome.Set(p.ControlPlane, infrav1.WorkersReadyCondition, metav1.ConditionFalse, o)
			}
			var want []string
			for _, pods := range test.want {
				want = append(want, "Warning NodeDrainBlocked The drain of Node n1 is blocked by "+pods)
			}
			if diff := cmp.Diff(want, emitted(recorder)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// related records the related objects of events.
type related struct {
	events.EventRecorder
	names []string
}

func (r *related) Eventf(_, about runtime.Object, _, _, _, _ string, _ ...any) {
	ref, ok := about.(*corev1.ObjectReference)
	if !ok {
		ref = &corev1.ObjectReference{}
	}
	r.names = append(r.names, strings.TrimSpace(ref.Kind+" "+ref.Name))
}

// TestEventsOfOnePassDiffer: the recorder merges events with the same reason and objects, whatever their texts say. So events of one pass about
// several Nodes or Machines have different related objects.
func TestEventsOfOnePassDiffer(t *testing.T) {
	recorder := &related{}
	p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Tools: pass.Tools{Recorder: recorder}}
	for _, name := range []string{"1", "2"} {
		drained := claims.Node{NodeID: claims.NodeID{Name: "n" + name}, DrainState: claims.DrainState{Cordoned: true, Drained: time.Unix(1, 0)}}
		report(t.Context(), p, claims.Write{Step: claims.WriteNode, Node: claims.Change[claims.Node]{Seen: claims.Node{NodeID: claims.NodeID{Name: "n" + name}}, Want: drained}})
		m := claims.Machine{Name: "m" + name, Claim: claims.NodeID{Name: "a"}}
		report(t.Context(), p, claims.Write{Step: claims.WriteClaim, Machine: claims.Change[claims.Machine]{Seen: m, Want: claims.Machine{Name: m.Name, Claim: claims.NodeID{UID: "b"}}}})
	}
	waits := map[string]string{"m1": "Pod a/b: cannot evict pod", "n2": "Pod a/c: cannot evict pod"}
	reportBlocked(p, []string{"m1"}, waits, outcome.WaitFor(0, infrav1.DrainingReason, "%s, %s", waits["m1"], waits["n2"]))
	want := []string{"Node n1", "Machine m1", "Node n2", "Machine m2", "Machine m1", "Node n2"}
	if diff := cmp.Diff(want, slices.DeleteFunc(recorder.names, func(name string) bool { return name == "" })); diff != "" {
		t.Error(diff)
	}
}
