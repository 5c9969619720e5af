// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// driftTimeout is how long the node count must differ from the size before the workers are counted. Shorter differences are usually
// nodes that still join, or Node objects of removed machines that are about to become NotReady.
const driftTimeout = 2 * time.Minute

// sightings remembers since when a set of nodes is seen. The zero value is ready to use.
type sightings struct {
	mu   sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	what  string
	since time.Time
}

// since returns how long this has been seen for the key without anything else in between; "" forgets.
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

// reconcileDrift notices that the number of workers differs from the size because somebody else has changed it, on the portal's own
// pages or by deleting Node objects. After a while the workers are counted, and the portal is asked for what is desired, like
// after any other change: once for each set of nodes, never in a loop.
func (r *Reconciler) reconcileDrift(ctx context.Context, s *scope) (outcome.Outcome, bool) {
	what := s.drift()
	seen := r.drifts.since(s.flow(), what)
	switch {
	case what == "":
		return outcome.Outcome{}, false
	case s.restored():
		return s.driftOutcome("The portal was asked once to restore that, and it made no difference: it may still run what is missing here. " +
			"Look at its list of instances. A node whose Node object was deleted comes back when its kubelet is restarted"), true
	case seen < driftTimeout:
		return s.driftOutcome("If it stays so, the portal is asked to restore that").In(driftTimeout - seen + time.Second), true
	}
	err := r.change(ctx, s, func() {
		s.record.Size, s.record.SizeUncertain = s.plan.Counted, true
		operation.PutRecord(s.controlPlane, s.record)
	})
	if err != nil {
		return outcome.Fail(err), true
	}
	return outcome.RetryAfter(0), true
}

// drift names the set of worker nodes if it is not of the size that the portal was asked for, or returns "".
func (s *scope) drift() string {
	if s.op != nil || s.record.Size < 0 || s.record.SizeUncertain || s.plan.Counted == s.record.Size {
		return ""
	}
	hash := fnv.New32a()
	for _, n := range s.plan.Present {
		_, _ = hash.Write([]byte(n.UID))
	}
	return fmt.Sprintf("%d/%s", s.plan.Counted, strconv.FormatUint(uint64(hash.Sum32()), 36))
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
		missing = " (gone: " + list(s.plan.Lost) + ")"
	}
	return outcome.WaitFor(0, infrav1.NodesDifferReason, "%d worker nodes exist, but the portal was asked for %d%s. %s",
		s.plan.Counted, s.record.Size, missing, what)
}
