// SPDX-License-Identifier: Apache-2.0

package workers

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
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// scale asks the portal for the plan's number of workers. An overloaded portal may carry out a scale that it answers with 503. So
// the size is uncertain after such an answer, and the provider asks for the desired number again, not for one in between.
func scale(ctx context.Context, p *pass.Pass, plan claims.Plan) outcome.Outcome {
	from, to := p.Record.Size, plan.Size
	if from < 0 {
		from = len(plan.Present)
	}
	if !p.Infrastructure.IsDone() {
		return p.Infrastructure
	}
	if o := Manageable(p, to, len(plan.Present)); !o.IsDone() {
		return o
	}
	op := operation.New(operation.Scale, strconv.Itoa(to))
	op.Attempt = strconv.Itoa(operation.AttemptSize(plan.Desired)) + " "
	op.From, op.FromAtMost, op.Before, op.Why = from, p.Record.SizeUncertain, plan.Before, plan.Why
	if p.Op().Lost() {
		op.Before = p.Op().Before // some may be gone by now
	}
	o, err := p.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) {
		// Here the replicas of MachineDeployments become a request to the portal.
		return p.Identity.Portal.ScaleCluster(ctx, p.ControlPlane.Spec.ClusterID, to)
	})
	if refusal := (*cloud.Error)(nil); cloud.IsUnavailable(err) && errors.As(err, &refusal) && refusal.Status == http.StatusServiceUnavailable {
		if err := recordUncertainSize(ctx, p, max(from, to)); err != nil {
			return outcome.Fail(err)
		}
	}
	if to < p.Record.MinWorkers {
		return outcome.RetryAfter(0) // decided again: one worker stays
	}
	return o
}

// maxWorkers is how many workers the portal is asked for at most: ten times the number that it allows by default. Clusters with more can
// be scaled down, because more Nodes are read.
const maxWorkers = 500

// Manageable is done if the provider can manage so many workers. A cluster that has more can be scaled down.
func Manageable(p *pass.Pass, workers, present int) outcome.Outcome {
	if workers > max(maxWorkers, p.Record.Size, present) {
		return outcome.StallFor(0, infrav1.TooManyNodesReason, "the replicas ask for %d workers, but the provider manages at most %d in a cluster. "+
			"Lower the replicas", workers, maxWorkers)
	}
	return outcome.Outcome{}
}

// driftTimeout is how long the node count must differ from the size before the workers are counted. Shorter differences are
// usually nodes that are still joining, or Node objects of removed machines that will soon be NotReady.
const driftTimeout = 2 * time.Minute

// reconcileDrift notices that the number of workers differs from the size because it was changed outside of the provider, on
// the portal's own pages or by deleting Node objects. After driftTimeout the workers are counted, and the portal is asked for
// the desired number, like after any other change. It is asked once for each set of nodes, never in a loop.
func (m *Memory) reconcileDrift(ctx context.Context, p *pass.Pass, plan claims.Plan) (outcome.Outcome, bool) {
	drift := driftOf(p, plan)
	if m.drift != drift {
		m.drift, m.driftSince = drift, time.Now()
	}
	left := driftTimeout - time.Since(m.driftSince)
	switch {
	case drift == "":
		return outcome.Outcome{}, false
	case changedNothing(p, plan) && left > 0:
		return driftOutcome(p, plan, "The portal has finished the %s, and nodes may still join or leave", p.Last).In(left + time.Second), true
	case changedNothing(p, plan):
		advice := "it may still run the missing instances. Look at its list of instances. A deleted Node object comes back when its kubelet is restarted"
		if plan.Counted > p.Record.Size {
			advice = "it still runs instances that it reports as removed. Ask its support to remove them, or raise the replicas to keep them. Until then they take no Pods"
		}
		return driftOutcome(p, plan, "The portal has finished the %s, which changed no nodes: %s", p.Last, advice), true
	case left > 0:
		return driftOutcome(p, plan, "If this lasts, the provider asks the portal to restore the number").In(left + time.Second), true
	}
	if err := recordUncertainSize(ctx, p, plan.Counted); err != nil {
		return outcome.Fail(err), true
	}
	return outcome.RetryAfter(0), true
}

// recordUncertainSize records that the portal runs at most this number of workers.
func recordUncertainSize(ctx context.Context, p *pass.Pass, most int) error {
	return p.Change(ctx, func(next *operation.State) {
		next.Record.Size, next.Record.SizeUncertain = most, true
	})
}

// driftOf identifies the set of worker nodes if it does not have the size that the portal was asked for, or returns "".
func driftOf(p *pass.Pass, plan claims.Plan) string {
	if p.Op() != nil || p.Record.Size < 0 || p.Record.SizeUncertain || plan.Counted == p.Record.Size {
		return ""
	}
	name := strconv.Itoa(plan.Counted)
	for _, n := range plan.Present {
		name += " " + n.UID
	}
	return name
}

// changedNothing reports whether the last request was a scale to this size that did not change the nodes.
func changedNothing(p *pass.Pass, plan claims.Plan) bool {
	if !p.Last.Is(operation.Scale) || p.Last.Result != operation.Succeeded || len(p.Last.Before) != len(plan.Present) {
		return false
	}
	return !slices.ContainsFunc(plan.Present, func(n claims.Node) bool {
		return !slices.ContainsFunc(p.Last.Before, func(b removal.NodeSnapshot) bool { return b.UID == n.UID })
	})
}

func driftOutcome(p *pass.Pass, plan claims.Plan, format string, args ...any) outcome.Outcome {
	missing := ""
	if len(plan.LostNodes) > 0 {
		missing = " (gone: " + outcome.Names(plan.LostNodes) + ")"
	}
	return outcome.WaitFor(0, infrav1.NodesDifferReason, "%d worker nodes exist, but the portal was asked for %d%s. %s",
		plan.Counted, p.Record.Size, missing, fmt.Sprintf(format, args...))
}
