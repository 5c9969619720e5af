// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// driftTime is how long other nodes than the size must be there before the portal is asked to restore it: nodes may be
// on their way.
const driftTime = 2 * time.Minute

// sightings remembers since when a set of nodes is seen. The zero value is ready to use.
type sightings struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	what  string
	since time.Time
}

// since tells how long this has been seen for the key without anything else in between; "" forgets.
func (s *sightings) since(key, what string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == "" {
		delete(s.seen, key)
		return 0
	}
	if s.seen == nil {
		s.seen = map[string]sighting{}
	}
	if s.seen[key].what != what {
		s.seen[key] = sighting{what: what, since: time.Now()}
	}
	return time.Since(s.seen[key].since)
}

// restoreSize has the portal restore the number of workers when somebody else has changed it, on the portal's own pages
// or by deleting Node objects: once for each set of nodes that is seen, never in a loop.
func (r *Reconciler) restoreSize(ctx context.Context, s *scope) (outcome.Outcome, bool) {
	what := s.drift()
	seen := r.drifts.since(s.flow(), what)
	switch {
	case what == "":
		return outcome.Outcome{}, false
	case s.restored():
		return s.driftOutcome("the portal was asked once to restore that, and it made no difference: it may still run what is missing here. " +
			"Look at its list of instances; a node whose Node object was deleted comes back when its kubelet is restarted"), true
	case seen < driftTime:
		return s.driftOutcome("if it stays so, the portal is asked to restore that").In(driftTime - seen + time.Second), true
	case !s.infrastructure.IsDone():
		return s.infrastructure, true
	}
	return r.scaleTo(ctx, s, len(s.plan.Present), s.desired.sum), true
}

// drift names the set of worker nodes if it is not of the size that the portal was asked for; "" if all is as it should be,
// or something else is to be done first.
func (s *scope) drift() string {
	settled := s.op == nil && s.record.Size == s.desired.sum && len(s.plan.Draining) == 0 && len(s.plan.Moves) == 0 && len(s.plan.Foreign) == 0
	if !settled || len(s.plan.Present) == s.record.Size {
		return ""
	}
	hash := fnv.New32a()
	for _, n := range s.nodes {
		_, _ = hash.Write([]byte(n.UID))
	}
	return fmt.Sprintf("%d/%s", len(s.plan.Present), strconv.FormatUint(uint64(hash.Sum32()), 36))
}

// restored reports whether the last request was a scale to this size that made no difference to the nodes.
func (s *scope) restored() bool {
	if !s.last.Is(operation.Scale) || s.last.Result != operation.Succeeded || len(s.last.Before) != len(s.plan.Present) {
		return false
	}
	return !slices.ContainsFunc(s.plan.Present, func(n claims.Node) bool {
		return !slices.ContainsFunc(s.last.Before, func(b claims.Sighting) bool { return b.UID == n.UID })
	})
}

func (s *scope) driftOutcome(what string) outcome.Outcome {
	missing := ""
	if len(s.plan.Lost) > 0 {
		missing = " (gone: " + strings.Join(slices.Sorted(slices.Values(s.plan.Lost)), ", ") + ")"
	}
	return outcome.WaitFor(0, infrav1.NodesDifferReason, "%d worker nodes are there, but the portal was asked for %d%s; %s",
		len(s.plan.Present), s.record.Size, missing, what)
}
