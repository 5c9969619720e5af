// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	// lag is how old the replicas may be that a request to the portal, or a drain, was decided from.
	lag = 10 * time.Second
	// between is how far apart one event on two servers may be seen.
	between = 3 * time.Second
)

// sums are the sums of replicas that were in effect, and when. While a change is on its way both may be.
type sums struct {
	mu       sync.Mutex
	replicas map[string]int
	optional int // replicas that may or may not count
	spans    []span
}

type span struct {
	sum      int
	optional int
	from, to time.Time // zero: still
}

func (s *sums) open() {
	s.replicas = map[string]int{}
	s.spans = []span{{from: time.Now()}}
}

// change notes that a MachineDeployment gets so many replicas (negative: it goes) while do makes it so.
func (s *sums) change(name string, replicas int, do func() error) error {
	s.mu.Lock()
	if replicas < 0 {
		delete(s.replicas, name)
	} else {
		s.replicas[name] = replicas
	}
	old := len(s.spans) - 1
	s.spans = append(s.spans, span{sum: s.total(), optional: s.optional, from: time.Now()})
	s.mu.Unlock()
	err := do()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans[old].to = time.Now()
	return err
}

// allowWithout says how many of the replicas, from now on, may or may not count: those whose template the portal cannot honour.
func (s *sums) allowWithout(optional int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.optional = optional
	now := time.Now()
	s.spans[len(s.spans)-1].to = now
	s.spans = append(s.spans, span{sum: s.total(), optional: optional, from: now})
}

// of is how many replicas a MachineDeployment has.
func (s *sums) of(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[name]
}

func (s *sums) total() (sum int) {
	for _, n := range s.replicas {
		sum += n
	}
	return sum
}

func (s *sums) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total()
}

// around are the sums that a decision carried out at this moment may stand on.
func (s *sums) around(at time.Time) (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.spans {
		if !span.from.After(at) && (span.to.IsZero() || !span.to.Before(at.Add(-lag))) {
			all = append(all, span.sum)
			if span.optional > 0 {
				all = append(all, max(0, span.sum-span.optional))
			}
		}
	}
	return all
}

// allowed tells whether the portal may be asked to go from one size to another.
func allowed(from, to int, sums []int) bool {
	return slices.ContainsFunc(sums, func(sum int) bool { return to == sum || sum < to && to < from })
}

// drainBegins wants a node too many. Callers hold seen.
func (l *life) drainBegins(node string) {
	l.drains = append(l.drains, moment{node, time.Now()})
	cluster := l.portalCluster()
	if cluster == nil {
		return
	}
	workers := cluster.Size
	if cluster.State == emulator.ClusterScaling {
		running := slices.DeleteFunc(slices.Clone(cluster.Nodes), func(n emulator.Node) bool { return n.ControlPlane || n.Gone })
		workers = max(workers, len(running))
	}
	if sums := l.sums.around(time.Now()); slices.Min(sums) >= workers {
		l.wrong("the drain of %s begins while there are %d workers and %d are wanted (%s)", node, workers, sums, cluster.State)
	}
}

// nodeGone wants the machine of a deleted Node to be gone, or to be on its way. It also counts, where the newest nodes are
// the ones to go, how often the provider drained another one: that may happen, but should be rare. Callers hold seen.
func (l *life) nodeGone(n *corev1.Node) {
	for _, i := range l.box.Portal.Instances() {
		if i.ID == n.Status.NodeInfo.MachineID && i.State == emulator.InstanceRunning {
			l.wrong("Node %s was deleted, and the portal still runs its machine", n.Name)
		}
	}
	if cluster := l.portalCluster(); l.victims != emulator.VictimsNewest || n.Spec.Unschedulable || cluster == nil || cluster.State != emulator.ClusterScaling {
		return
	}
	for _, other := range l.nodes { // of the same second the provider cannot know which is newer
		if other.Spec.Unschedulable && l.runs(&other) && other.CreationTimestamp.Before(&n.CreationTimestamp) {
			l.say("  Node %s went without a drain, while Node %s, which is older and drained, stays", n.Name, other.Name)
			l.count("newest nodes removed undrained while an older one was drained")
			return
		}
	}
}

// runs tells whether the portal runs the machine of a Node.
func (l *life) runs(n *corev1.Node) bool {
	return slices.ContainsFunc(l.box.Portal.Instances(), func(i emulator.Instance) bool {
		return i.ID == n.Status.NodeInfo.MachineID && i.State == emulator.InstanceRunning
	})
}

// judge ends a sequence: it returns what did not hold in it.
func (l *life) judge(quiet bool) error {
	requests, err := l.judgeJournal(), l.judgeAudit()
	l.seen.Lock()
	defer l.seen.Unlock()
	if quiet && requests > 0 {
		l.wrong("the portal was asked %d times to scale, and no replicas had changed", requests)
	}
	for _, c := range l.cordons {
		if !slices.ContainsFunc(l.drains, func(d moment) bool { return d.node == c.node && d.at.Before(c.at.Add(between)) }) {
			l.wrong("Node %s was cordoned, and no drain had begun", c.node)
		}
	}
	l.cordons, l.drains = nil, nil
	all := []error{err}
	for _, w := range l.wrongs {
		all = append(all, errors.New(w))
	}
	return errors.Join(all...)
}

// judgeAudit judges by what the API servers have logged since the last look.
func (l *life) judgeAudit() error {
	management, err := l.globe.audit.take(l.namespace)
	workload, workloadErr := l.audit.take(l.namespace)
	entries := slices.DeleteFunc(l.box.Portal.Journal(), func(e emulator.Entry) bool { return e.Account != l.account })
	l.seen.Lock()
	defer l.seen.Unlock()
	l.auditor.books = books{entries: entries, sums: &l.sums}
	l.auditor.judge(management, workload)
	return errors.Join(err, workloadErr)
}

// judgeJournal reads what the portal has written since the last look, and returns how often it was asked to scale.
func (l *life) judgeJournal() (requests int) {
	all := l.box.Portal.Journal()
	entries := slices.DeleteFunc(slices.Clone(all[l.judged:]), func(e emulator.Entry) bool { return e.Account != l.account })
	l.judged = len(all)
	l.seen.Lock()
	defer l.seen.Unlock()
	l.judgeRemovals(entries)
	byPerson := false
	for _, e := range entries {
		if e.IsRequest() {
			byPerson = e.User == personID(l.number)
		}
		if isScale(e) && !byPerson {
			requests++
			l.count("scale requests")
		}
		var from, to int
		if _, err := fmt.Sscanf(e.Detail, "size %d → %d", &from, &to); err != nil || e.Object != "cluster" || byPerson {
			continue // what a request changed follows it
		}
		if sums := l.sums.around(e.Time); !allowed(from, to, sums) {
			l.wrong("%s the portal was asked to go from %d to %d workers while %d were wanted", e.Time.Format("15:04:05.000"), from, to, sums)
		}
	}
	return requests
}

func isScale(e emulator.Entry) bool {
	return e.Method == "POST" && strings.HasSuffix(e.Route, "/scale")
}

// TestAllowed states what the portal may be asked for.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		from, to int
		sums     []int
		want     bool
	}{
		{3, 5, []int{5}, true}, {3, 4, []int{5}, false}, {3, 6, []int{5}, false}, {5, 3, []int{3}, true},
		{5, 4, []int{3}, true}, {5, 2, []int{3}, false}, {5, 5, []int{3}, false}, {5, 3, []int{4}, false},
		{5, 4, []int{4, 6}, true}, {5, 6, []int{4, 6}, true}, {5, 3, []int{4, 6}, false},
	} {
		if got := allowed(c.from, c.to, c.sums); got != c.want {
			t.Errorf("%d → %d while %d are wanted: allowed %t", c.from, c.to, c.sums, got)
		}
	}
}

// TestSumsAround has a change be both before and after while it is on its way, and forgotten after a while.
func TestSumsAround(t *testing.T) {
	s := &sums{}
	s.open()
	var during time.Time
	if err := s.change("a", 3, func() error { during = time.Now(); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.around(during); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("during the change: %d", got)
	}
	if got := s.around(time.Now().Add(2 * lag)); !slices.Equal(got, []int{3}) {
		t.Errorf("long after the change: %d", got)
	}
	if got := s.around(s.spans[1].from.Add(-time.Nanosecond)); !slices.Equal(got, []int{0}) {
		t.Errorf("before the change: %d", got)
	}
}
