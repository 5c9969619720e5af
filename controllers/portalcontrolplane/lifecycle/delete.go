// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"

	"cmp"
	"context"
	"strings"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Delete takes the deletion one step further. It is done when nothing is left at the portal. due reports that the request is to be sent now
// (SendDelete).
func (k *Clusters) Delete(ctx context.Context, p *pass.Pass) (o outcome.Outcome, due bool) {
	mine, err := k.Ownership.MayDelete(ctx, p)
	switch {
	case err != nil:
		return outcome.Fail(err), false
	case !mine:
		p.Event(infrav1.EventPortalClusterRetained, "Delete", "Left portal cluster %s unchanged: this object does not own it", p.ControlPlane.Spec.ClusterID)
		return outcome.Outcome{}, false
	}
	if o, due = k.deleteOwn(ctx, p); !due {
		warnOfNames(p, o)
	}
	return o, due
}

// warnOfNames names the failed creations that may have left something at the portal, when the deletion is done.
func warnOfNames(p *pass.Pass, o outcome.Outcome) {
	if names := p.Record.AbandonedNames; o.IsDone() && len(names) > 0 {
		p.Warn(infrav1.EventOperationFailed, "Create", "Creating the cluster failed under %s. Look for clusters with these names at the portal, "+
			"and delete them there: %s", outcome.Count(len(names), "name"), strings.Join(names, ", "))
	}
}

// deleteOwn is Delete of an object that owns its portal cluster, or has none yet.
func (k *Clusters) deleteOwn(ctx context.Context, p *pass.Pass) (o outcome.Outcome, due bool) {
	spec := p.ControlPlane.Spec
	switch {
	case spec.ClusterID == "" && p.Op() == nil:
		return outcome.Outcome{}, false // no request was sent, or it was refused
	case p.Deleted():
		return outcome.Outcome{}, false // the manager ended before it removed the finalizer
	case p.DeletionPolicy() == infrav1.DeletionPolicyRetain:
		p.Event(infrav1.EventPortalClusterRetained, "Delete", "Left portal cluster %s unchanged: deletionPolicy is Retain",
			cmp.Or(spec.ClusterID, spec.ClusterName)) // the name of an adopted cluster is not known
		return outcome.Outcome{}, false
	case !p.Infrastructure.IsDone():
		return p.Infrastructure.Prefix("the portal cluster cannot be deleted yet (to keep it, set spec.deletionPolicy to Retain)"), false
	case spec.ClusterID == "":
		return k.finishCreation(ctx, p), false
	}
	return k.deleteKnown(ctx, p)
}

// finishCreation waits for a creation that is under way, or settles one whose outcome is unknown, because without it no id to
// delete is known.
func (k *Clusters) finishCreation(ctx context.Context, p *pass.Pass) outcome.Outcome {
	settled := p.Op().Lost() && infrav1.DecisionRetry.MadeOn(p.ControlPlane, p.Op().ID) // a person has checked that the cluster does not exist
	o := k.pollCreation(ctx, p)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case p.ControlPlane.Spec.ClusterID != "":
		return outcome.RetryAfter(0) // the next pass decides whether it is deleted
	case p.Op() == nil && settled:
		return outcome.Outcome{}
	case p.Op() == nil:
		return outcome.RetryAfter(0) // the creation failed, so nothing is left to delete
	}
	return o
}

// deleteKnown deletes the cluster by its id. It waits for the operation in flight, unless that is stuck or lost.
func (k *Clusters) deleteKnown(ctx context.Context, p *pass.Pass) (o outcome.Outcome, due bool) {
	if p.Op().Is(operation.Create) {
		if o := p.Runner().Finish(ctx, operation.Abandoned, p.ControlPlane.Spec.ClusterID); !o.IsDone() {
			return o, false
		}
	}
	if running := p.Op(); running != nil {
		o := k.PollOperation(ctx, p)
		switch {
		case o.Kind == outcome.Failed:
			return o, false
		case running.Type == operation.Delete && p.Last.Result == operation.Succeeded:
			return outcome.Outcome{}, false
		case endedUnseen(ctx, p, o):
			return p.Runner().Finish(ctx, operation.Succeeded, ""), false
		case p.Op() == nil, p.Op().Lost() && p.Op().ResendIn() == 0, p.Op().Type != operation.Delete && (p.Op().Lost() || o.Reason == infrav1.JobStuckReason):
			// the deletion is sent
		default:
			return operation.Progress(p.Op(), o, infrav1.DeletingReason), false
		}
	}
	if o, refused := p.Refused(operation.New(operation.Delete, p.ControlPlane.Spec.ClusterID)); refused { // so nothing is read for it either
		return operation.Progress(p.Op(), o, infrav1.DeletingReason), false
	}
	return outcome.Outcome{}, true
}

// endedUnseen reports whether a deletion has ended although its job, whose poll had the outcome, is stuck or lost: the portal does not know the
// cluster any more. Some portals never end the job of a deletion. While the job makes progress, the portal may hide a cluster whose nodes it
// still removes.
func endedUnseen(ctx context.Context, p *pass.Pass, polled outcome.Outcome) bool {
	if !p.Op().Is(operation.Delete) || !p.Op().Lost() && polled.Reason != infrav1.JobStuckReason {
		return false
	}
	id := p.ControlPlane.Spec.ClusterID
	return p.Backoff.Do("deleted", id+" "+p.Identity.Version, func() outcome.Outcome {
		_, err := p.Identity.Portal.Kubeconfig(ctx, id)
		if !cloud.IsNotFound(err) {
			return outcome.WaitFor(0, infrav1.DeletingReason, "the portal still knows cluster %s, or does not answer", id)
		}
		return p.Runner().NotFound(ctx, "cluster "+id+outcome.RequestID(err))
	}).IsDone()
}

// SendDelete asks the portal to delete the cluster. It is done if the portal does not know it. accepted reports that the portal deletes it now, or
// may do so, because its answer was lost.
func (k *Clusters) SendDelete(ctx context.Context, p *pass.Pass) (o outcome.Outcome, accepted bool) {
	id := p.ControlPlane.Spec.ClusterID
	op := operation.New(operation.Delete, id)
	o, err := p.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) {
		job, err := p.Identity.Portal.DeleteCluster(ctx, id)
		accepted = err == nil || cloud.IsUnknownOutcome(err)
		return job, err
	})
	if !cloud.IsNotFound(err) || o.Reason == infrav1.AccountChangedReason {
		return operation.Progress(p.Op(), o, infrav1.DeletingReason), accepted
	}
	hidden := p.Runner().NotFound(ctx, "cluster "+id+outcome.RequestID(err)).NoLaterThan(o.RequeueAfter)
	if hidden.IsDone() {
		// The identity forgets the cluster next. If the manager ends then, another pass may not be able to ask the portal.
		op.Result = operation.Succeeded
		if err := p.Change(ctx, func(next *operation.State) { next.Last = op }); err != nil {
			return outcome.Fail(err), false
		}
		warnOfNames(p, hidden)
	}
	return hidden, false
}
