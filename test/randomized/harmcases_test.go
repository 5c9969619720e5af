// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestKilled checks that the judge of removals reports killed Pods, but not if the provider could not know the order of removal
// or a drain could not have helped.
func TestKilled(t *testing.T) {
	const newest, oldest, random = emulator.VictimsNewest, emulator.VictimsOldest, emulator.VictimsRandom
	drained := emulator.Removal{Machine: "i-3", Cordoned: true, Ready: true}
	with := func(change func(*emulator.Removal)) emulator.Removal { r := drained; change(&r); return r }
	running := with(func(r *emulator.Removal) { r.Pods = []string{"default/a"} })
	for name, c := range map[string]struct {
		portal   emulator.VictimOrder
		recorded string
		removal  emulator.Removal
		twin     bool // a node of the same second stays
		want     bool
	}{
		"drained":                     {newest, "", drained, false, false},
		"with a Pod":                  {newest, "", running, false, true},
		"with a Pod, cordoned or not": {newest, "", with(func(r *emulator.Removal) { r.Cordoned, r.Pods = false, []string{"default/a"} }), false, true},
		"amid its drain":              {newest, "", with(func(r *emulator.Removal) { r.Terminating = []string{"default/a"} }), false, true},
		"without a kubelet":           {newest, "", with(func(r *emulator.Removal) { r.Ready, r.Terminating = false, []string{"default/a"} }), false, false},
		"one of two of a second":      {newest, "", running, true, false},
		"no longer taken for newest":  {newest, "none", running, false, false},
		"oldest, not known yet":       {oldest, "", running, false, false},
		"oldest, known":               {oldest, "Oldest", running, false, true},
		"oldest, in doubt again":      {oldest, "none", running, false, false},
		"random":                      {random, "", running, false, false},
	} {
		h := newHarm()
		h.births = map[string]time.Time{"i-1": at(0), "i-2": at(10), "i-3": at(20)}
		if c.twin {
			h.births["i-2"] = at(20)
		}
		h.orderNoted("before", at(0))
		h.orderNoted(c.recorded, at(30))
		h.orderNoted("after", at(50))
		if got := h.killed(c.portal, at(40), []emulator.LogEntry{{Removal: &c.removal}}); (len(got) > 0) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTwinsThatBothGo removes two nodes of the same second with one job. The provider had to drain both, because the
// portal may remove either first, so the judge reports the one with a Pod.
func TestTwinsThatBothGo(t *testing.T) {
	h := newHarm()
	h.births = map[string]time.Time{"i-1": at(0), "i-2": at(20), "i-3": at(20)}
	job := []emulator.LogEntry{
		{Removal: &emulator.Removal{Machine: "i-2", Ready: true}},
		{Removal: &emulator.Removal{Machine: "i-3", Ready: true, Pods: []string{"default/a"}}},
	}
	if got := h.killed(emulator.VictimsNewest, at(40), job); len(got) != 1 {
		t.Errorf("killed: %v", got)
	}
}

// TestHasty checks that a node may keep Pods only if the last MachineDeployment that held it ends drains early.
func TestHasty(t *testing.T) {
	removal := &emulator.Removal{Machine: "i-1", Ready: true, Pods: []string{"default/a"}}
	for deployment, want := range map[string]int{"hasty": 0, "patient": 1, "": 1} {
		h := newHarm()
		h.hasty["hasty"] = true
		if deployment != "" {
			h.holders["n-1"] = deployment
		}
		if got := h.killed(emulator.VictimsNewest, at(40), []emulator.LogEntry{{ID: "n-1", Removal: removal}}); len(got) != want {
			t.Errorf("%q: %v", deployment, got)
		}
	}
}

// TestOrderIn reads the recorded order, and "" if there is none or the record is invalid.
func TestOrderIn(t *testing.T) {
	for text, want := range map[string]string{"": "", "{}": "", "{": "", `{"size":3,"removalOrder":{"order":"Oldest","odds":3}}`: "Oldest"} {
		if got := orderIn(map[string]string{infrav1.RecordAnnotation: text}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// nodeOf returns the node that a text describes: its name, and optionally " cordoned", " marked" or " broken".
func nodeOf(text string) corev1.Node {
	name, _, _ := strings.Cut(text, " ")
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	n.Spec.ProviderID = "portal://c/" + name
	n.Spec.Unschedulable = strings.Contains(text, "cordoned")
	status := corev1.ConditionTrue
	if strings.Contains(text, "broken") {
		status = corev1.ConditionUnknown
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	if strings.Contains(text, "marked") {
		n.Annotations = map[string]string{infrav1.DrainStartedAnnotation: ""}
	}
	return n
}

// machineOf returns the Machine that a text describes: its name, the node it holds ("-": none) or a providerID, and optionally
// " deleting" or " foreign".
func machineOf(text string) clusterv1.Machine {
	parts := strings.Fields(text)
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: parts[0]}}
	switch {
	case strings.HasPrefix(parts[1], "portal://"):
		m.Spec.ProviderID = parts[1]
	case parts[1] != "-":
		m.Status.NodeRef.Name = parts[1]
	}
	if strings.Contains(text, "deleting") {
		m.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if strings.Contains(text, "foreign") {
		m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "large"}
	}
	return m
}

// TestIdleNodes checks which nodes count as idle and how many Machines wait for one.
func TestIdleNodes(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, machines string
		idle            string
		waiting         int
	}{
		"one to one":                         {"a, b", "1 a, 2 b", "", 0},
		"a new node":                         {"a, b", "1 a, 2 -", "b", 1},
		"a new node, and core is not so far": {"a, b", "1 a, 2 portal://c/b", "", 0},
		"a Machine whose node is gone":       {"a, b", "1 a, 2 gone", "b", 1},
		"no node for it yet":                 {"a", "1 a, 2 -", "", 1},
		"a broken one":                       {"a, b broken", "1 a, 2 -", "", 1},
		"a Machine on a broken one":          {"a, b broken", "1 -, 2 b", "a", 2},
		"a cordoned one":                     {"a, b cordoned", "1 a, 2 -", "", 1},
		"one that we drain":                  {"a, b marked", "1 a, 2 -", "", 1},
		"a Machine that is deleted holds it": {"a, b", "1 a, 2 b deleting, 3 -", "", 1},
		"only a deleted Machine waits":       {"a, b", "1 a, 2 - deleting", "b", 0},
		"only a foreign Machine waits":       {"a, b", "1 a, 2 - foreign", "b", 0},
		"more Machines than are wanted":      {"a, b, c", "1 a, 2 b, 3 -", "c", 0},
	} {
		nodes, machines := map[string]corev1.Node{}, map[string]clusterv1.Machine{}
		for _, text := range strings.Split(c.nodes, ", ") {
			n := nodeOf(text)
			nodes[n.Name] = n
		}
		for _, text := range strings.Split(c.machines, ", ") {
			m := machineOf(text)
			machines[m.Name] = m
		}
		idle, waiting := idleNodes(nodes, machines, "large", 2)
		var names []string
		for _, node := range idle {
			names = append(names, node)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.idle || waiting != c.waiting {
			t.Errorf("%s: idle %q, %d waiting", name, got, waiting)
		}
	}
}

// watched returns a life without servers, which only judges.
func watched() *life {
	l := &life{environment: &environment{counts: map[string]int{}}}
	l.nodes, l.machines, l.harm = map[string]corev1.Node{}, map[string]clusterv1.Machine{}, newHarm()
	l.sums.open()
	l.sums.replicas["d"] = 2
	l.judging.Store(true)
	return l
}

// TestUpgradeSeen checks that a node may be idle for as long as it takes to bind a Machine. The time of each node counts
// separately.
func TestUpgradeSeen(t *testing.T) {
	for name, c := range map[string]struct {
		idle string // the node that is Ready at each look, ten seconds apart. '.': none; x: a and b; u: no upgrade
		want string
	}{
		"bound in time":         {"a.a.a", ""},
		"one after the other":   {"aabbaabb", ""},
		"for too long":          {"aaaa", "Node a has been Ready without a Machine for 30s during an upgrade, while 2 Machines wait"},
		"said once":             {"aaaaaaaa", "Node a has been"},
		"beside another one":    {"xaxa", "Node a has been"},
		"upgrades with a pause": {"aauaa", ""},
	} {
		l := watched()
		for i, look := range c.idle {
			clear(l.nodes)
			for _, node := range "ab" {
				text := string(node)
				if look != node && look != 'x' {
					text += " broken"
				}
				n := nodeOf(text)
				l.nodes[n.Name] = n
			}
			l.machines["1"], l.machines["2"] = machineOf("1 -"), machineOf("2 -")
			l.upgradeSeen(look != 'u', at(float64(10*i)))
		}
		if got := strings.Join(l.wrongs, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) || len(l.wrongs) > 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRemediationSeen checks that a node may cost one Machine until it is healthy again, and none during an upgrade.
func TestRemediationSeen(t *testing.T) {
	sick, well := nodeOf("a broken"), nodeOf("a")
	for name, c := range map[string]struct {
		do   func(l *life)
		want string
	}{
		"once":              {func(l *life) { l.remedy("1", sick) }, ""},
		"twice":             {func(l *life) { l.remedy("1", sick); l.remedy("2", sick) }, "Machine 2 was remediated, and so was Machine 1 on the same Node a"},
		"healthy between":   {func(l *life) { l.remedy("1", sick); l.nodeChanged(&well, false); l.remedy("2", sick) }, ""},
		"on two nodes":      {func(l *life) { l.remedy("1", sick); l.remedy("2", nodeOf("b broken")) }, ""},
		"without a node":    {func(l *life) { l.remedy("1", corev1.Node{}); l.remedy("2", corev1.Node{}) }, ""},
		"during an upgrade": {func(l *life) { l.upgrading = time.Now().Add(-time.Minute); l.remedy("1", sick) }, "while the portal upgraded the cluster"},
		"as one begins":     {func(l *life) { l.upgrading = time.Now(); l.remedy("1", sick) }, ""},
	} {
		l := watched()
		c.do(l)
		if got := strings.Join(l.wrongs, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// remedy shows the judge a Machine on a node that a MachineHealthCheck remediates.
func (l *life) remedy(machine string, node corev1.Node) {
	l.nodes[node.Name] = node
	m := machineOf(fmt.Sprintf("%s %s", machine, cmp.Or(node.Name, "-")))
	l.machineChanged(&m, false)
	m.DeletionTimestamp = &metav1.Time{Time: noon}
	m.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
	}}
	l.machineChanged(&m, false)
}
