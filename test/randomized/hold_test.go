// SPDX-License-Identifier: Apache-2.0

package randomized

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
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	// lag is how old the replicas may be from which the provider decides on a request to the portal or on a drain.
	lag = 10 * time.Second
	// between is the longest time between the reports of the same event from two servers.
	between = 3 * time.Second
)

// sums are the sums of replicas over time. While a change is under way, both the old and the new sum are valid.
type sums struct {
	mu       sync.Mutex
	replicas map[string]int
	optional int // replicas that may or may not count
	spans    []span
}

type span struct {
	sum      int
	optional int
	from, to time.Time // to is zero while the sum is valid
}

func (s *sums) open() {
	s.replicas = map[string]int{}
	s.spans = []span{{from: time.Now()}}
}

// change notes that do changes the replicas of a MachineDeployment. Negative replicas mean that do deletes it.
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

// allowWithout sets how many of the replicas may or may not count from now on, because the portal cannot honor their template.
func (s *sums) allowWithout(optional int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.optional = optional
	now := time.Now()
	s.spans[len(s.spans)-1].to = now
	s.spans = append(s.spans, span{sum: s.total(), optional: optional, from: now})
}

// of returns the replicas of a MachineDeployment.
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

// around returns the sums on which a decision that takes effect at this time may be based.
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

// allowed reports whether the provider may ask the portal for this change of size.
func allowed(from, to int, sums []int) bool {
	return slices.ContainsFunc(sums, func(sum int) bool { return to == sum || sum < to && to < from })
}

// drainBegins checks that the portal has more workers than users want. Callers hold seen.
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

// nodeGone checks that the machine of a deleted Node does not run. Callers hold seen.
func (l *life) nodeGone(n *corev1.Node) {
	if l.runs(n) {
		l.wrong("Node %s was deleted, and the portal still runs its machine", n.Name)
	}
}

// runs reports whether the portal runs the machine of a Node.
func (l *life) runs(n *corev1.Node) bool {
	return slices.ContainsFunc(l.box.Portal.Instances(), func(i emulator.Instance) bool {
		return i.ID == n.Status.NodeInfo.MachineID && i.State == emulator.InstanceRunning
	})
}

// judge ends a sequence and returns the violations in it.
func (l *life) judge(quiet bool) error {
	requests := l.judgeRequestLog()
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
	var all []error
	for _, w := range l.wrongs {
		all = append(all, errors.New(w))
	}
	return errors.Join(all...)
}

// judgeRequestLog checks the request log's entries since the last call, and returns how often the provider asked the portal to
// scale.
func (l *life) judgeRequestLog() (requests int) {
	all := l.box.Portal.RequestLog()
	entries := slices.DeleteFunc(slices.Clone(all[l.judged:]), func(e emulator.LogEntry) bool { return e.Account != l.user.Account })
	l.judged = len(all)
	l.seen.Lock()
	defer l.seen.Unlock()
	l.judgeRemovals(entries)
	byPerson := false
	for _, e := range entries {
		if e.IsRequest() {
			byPerson = e.User == suite.User(person, l.number).ID
		}
		if isScale(e) && !byPerson {
			requests++
			l.count("scale requests")
		}
		var from, to int
		if _, err := fmt.Sscanf(e.Detail, "size %d → %d", &from, &to); err != nil || e.Object != "cluster" || byPerson {
			continue // the entries of a request's changes follow the request
		}
		if sums := l.sums.around(e.Time); !allowed(from, to, sums) {
			l.wrong("%s the portal was asked to go from %d to %d workers while %d were wanted", e.Time.Format("15:04:05.000"), from, to, sums)
		}
	}
	return requests
}

func isScale(e emulator.LogEntry) bool {
	return e.Method == "POST" && strings.HasSuffix(e.Route, "/scale")
}

// TestAllowed checks which changes of size the provider may ask for.
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

// TestSumsAround checks that both the old and the new sum are valid during a change, and only the new one after lag.
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
