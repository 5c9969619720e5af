// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// scale asks the portal for the plan's number of workers. An overloaded portal may carry out a scale that it answers with 503. So
// the size is uncertain after such an answer, and the provider asks for the desired number again, not for one in between.
func (r *Reconciler) scale(ctx context.Context, s *scope) outcome.Outcome {
	from, to := s.Record.Size, s.plan.Size
	if from < 0 {
		from = len(s.plan.Present)
	}
	if !s.Infrastructure.IsDone() {
		return s.Infrastructure
	}
	if o := s.manageable(to); !o.IsDone() {
		return o
	}
	op := operation.New(operation.Scale, strconv.Itoa(to))
	op.From, op.FromAtMost, op.Nodes, op.Before = from, s.Record.SizeUncertain, max(to-from, from-to), s.plan.Before
	if s.Op().Lost() {
		op.Before = s.Op().Before // some may be gone by now
	}
	o, err := s.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) {
		// Here the replicas of MachineDeployments become a request to the portal.
		return s.Identity.Portal.ScaleCluster(ctx, s.ControlPlane.Spec.ClusterID, to)
	})
	if refusal := (*cloud.Error)(nil); cloud.IsUnavailable(err) && errors.As(err, &refusal) && refusal.Status == http.StatusServiceUnavailable {
		if err := r.recordUncertainSize(ctx, s, max(from, to)); err != nil {
			return outcome.Fail(err)
		}
	}
	switch {
	case to < s.Record.MinWorkers:
		return outcome.RetryAfter(0) // decided again: one worker stays
	case o.IsDone():
		return s.workersOutcome().In(o.RequeueAfter)
	}
	return o
}

// scaleReached ends a lost scale when the Nodes show its result.
func (r *Reconciler) scaleReached(ctx context.Context, s *scope) outcome.Outcome {
	if o := s.Runner().Finish(ctx, operation.Succeeded, ""); !o.IsDone() {
		return o
	}
	return outcome.RetryAfter(0)
}

// driftTimeout is how long the node count must differ from the size before the workers are counted. Shorter differences are
// usually nodes that are still joining, or Node objects of removed machines that will soon be NotReady.
const driftTimeout = 2 * time.Minute

// reconcileDrift notices that the number of workers differs from the size because it was changed outside of the provider, on
// the portal's own pages or by deleting Node objects. After driftTimeout the workers are counted, and the portal is asked for
// the desired number, like after any other change. It is asked once for each set of nodes, never in a loop.
func (r *Reconciler) reconcileDrift(ctx context.Context, s *scope) (outcome.Outcome, bool) {
	seen, drift := r.memory(s), s.drift()
	if seen.drift != drift {
		seen.drift, seen.driftSince = drift, time.Now()
	}
	left := driftTimeout - time.Since(seen.driftSince)
	switch {
	case drift == "":
		return outcome.Outcome{}, false
	case s.restored() && left > 0:
		return s.driftOutcome("The portal has finished the %s, and nodes may still join or leave", s.Last).In(left + time.Second), true
	case s.restored():
		return s.driftOutcome("The portal has finished the %s, which changed no nodes: it may still run the missing instances. "+
			"Look at its list of instances. A deleted Node object comes back when its kubelet is restarted", s.Last), true
	case left > 0:
		return s.driftOutcome("If this lasts, the provider asks the portal to restore the number").In(left + time.Second), true
	}
	if err := r.recordUncertainSize(ctx, s, s.plan.Counted); err != nil {
		return outcome.Fail(err), true
	}
	return outcome.RetryAfter(0), true
}

// recordUncertainSize records that the portal runs at most this number of workers.
func (r *Reconciler) recordUncertainSize(ctx context.Context, s *scope, most int) error {
	return s.Change(ctx, func(next *operation.State) {
		next.Record.Size, next.Record.SizeUncertain = most, true
	})
}

// drift identifies the set of worker nodes if it does not have the size that the portal was asked for, or returns "".
func (s *scope) drift() string {
	if s.Op() != nil || s.Record.Size < 0 || s.Record.SizeUncertain || s.plan.Counted == s.Record.Size {
		return ""
	}
	name := strconv.Itoa(s.plan.Counted)
	for _, n := range s.plan.Present {
		name += " " + n.UID
	}
	return name
}

// restored reports whether the last request was a scale to this size that did not change the nodes.
func (s *scope) restored() bool {
	if !s.Last.Is(operation.Scale) || s.Last.Result != operation.Succeeded || len(s.Last.Before) != len(s.plan.Present) {
		return false
	}
	return !slices.ContainsFunc(s.plan.Present, func(n claims.Node) bool {
		return !slices.ContainsFunc(s.Last.Before, func(b claims.NodeSnapshot) bool { return b.UID == n.UID })
	})
}

func (s *scope) driftOutcome(format string, args ...any) outcome.Outcome {
	missing := ""
	if len(s.plan.LostNodes) > 0 {
		missing = " (gone: " + joinNames(s.plan.LostNodes) + ")"
	}
	return outcome.WaitFor(0, infrav1.NodesDifferReason, "%d worker nodes exist, but the portal was asked for %d%s. %s",
		s.plan.Counted, s.Record.Size, missing, fmt.Sprintf(format, args...))
}
