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

// scaling is a request for a number of workers.
type scaling struct {
	s           *scope
	to          int
	unavailable bool // the portal answered that it is unavailable
}

// Send implements operation.Request. Here the replicas of MachineDeployments become a request to the portal.
func (q *scaling) Send(ctx context.Context) (cloud.Created, error) {
	job, err := q.s.identity.Portal.ScaleCluster(ctx, q.s.controlPlane.Spec.ClusterID, q.to)
	var refusal *cloud.Error
	q.unavailable = cloud.IsUnavailable(err) && errors.As(err, &refusal) && refusal.Status == http.StatusServiceUnavailable
	return cloud.Created{Job: job}, err
}

// UpdateObject implements operation.Request. After a scale that failed half way, or whose answer was lost, the portal runs at
// most the larger of both numbers.
func (q *scaling) UpdateObject(op *operation.Operation, _ string, cause error) {
	switch {
	case op.Result == operation.Refused && insistsOnWorkers(op.Size(), cause):
		q.s.record.MinWorkers = 1
	case op.Result == operation.Refused: // the size is what it was
	case op.Lost(), op.Result == operation.Failed, op.Result == operation.Abandoned:
		q.s.record.Size, q.s.record.SizeUncertain = max(op.From, op.Size()), true
	default:
		q.s.record.Size, q.s.record.SizeUncertain = op.Size(), false
		if op.Size() > max(op.From, q.s.record.MinWorkers) {
			q.s.record.MinWorkers = 0 // more are wanted. The next time that none are, the portal is asked again
		}
	}
	operation.PutRecord(q.s.controlPlane, q.s.record)
}

// scale asks the portal for the plan's number of workers. An overloaded portal may carry out a scale that it answers with 503. So
// the size is uncertain after such an answer, and the provider asks for the desired number again, not for one in between.
func (r *Reconciler) scale(ctx context.Context, s *scope) outcome.Outcome {
	from, to := s.record.Size, s.plan.Size
	if from < 0 {
		from = len(s.plan.Present)
	}
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	if o := s.manageable(to); !o.IsDone() {
		return o
	}
	op := operation.New(operation.Scale, strconv.Itoa(to))
	op.From, op.FromAtMost, op.Nodes, op.Before = from, s.record.SizeUncertain, max(to-from, from-to), s.plan.Before
	if s.op.Lost() {
		op.Before = s.op.Before // some may be gone by now
	}
	request := &scaling{s: s, to: to}
	o := r.start(ctx, s, op, request)
	if request.unavailable {
		if err := r.recordUncertainSize(ctx, s, max(from, to)); err != nil {
			return outcome.Fail(err)
		}
	}
	switch {
	case to < s.record.MinWorkers:
		return outcome.RetryAfter(0) // decided again: one worker stays
	case o.IsDone():
		return s.workersOutcome().In(o.RequeueAfter)
	}
	return o
}

// scaleReached ends a lost scale when the Nodes show its result.
func (r *Reconciler) scaleReached(ctx context.Context, s *scope) outcome.Outcome {
	lost := s.op
	if o := s.reloadAfter(r.runner(s).Finish(ctx, lost, operation.Succeeded, "", &scaling{s: s, to: lost.Size()})); !o.IsDone() {
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
		return s.driftOutcome("The portal has finished the %s, and nodes may still join or leave", s.last).In(left + time.Second), true
	case s.restored():
		return s.driftOutcome("The portal has finished the %s, which changed no nodes: it may still run the missing instances. "+
			"Look at its list of instances. A deleted Node object comes back when its kubelet is restarted", s.last), true
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
	return r.change(ctx, s, func() {
		s.record.Size, s.record.SizeUncertain = most, true
		operation.PutRecord(s.controlPlane, s.record)
	})
}

// drift identifies the set of worker nodes if it does not have the size that the portal was asked for, or returns "".
func (s *scope) drift() string {
	if s.op != nil || s.record.Size < 0 || s.record.SizeUncertain || s.plan.Counted == s.record.Size {
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
	if !s.last.Is(operation.Scale) || s.last.Result != operation.Succeeded || len(s.last.Before) != len(s.plan.Present) {
		return false
	}
	return !slices.ContainsFunc(s.plan.Present, func(n claims.Node) bool {
		return !slices.ContainsFunc(s.last.Before, func(b claims.NodeSnapshot) bool { return b.UID == n.UID })
	})
}

func (s *scope) driftOutcome(format string, args ...any) outcome.Outcome {
	missing := ""
	if len(s.plan.LostNodes) > 0 {
		missing = " (gone: " + joinNames(s.plan.LostNodes) + ")"
	}
	return outcome.WaitFor(0, infrav1.NodesDifferReason, "%d worker nodes exist, but the portal was asked for %d%s. %s",
		s.plan.Counted, s.record.Size, missing, fmt.Sprintf(format, args...))
}
