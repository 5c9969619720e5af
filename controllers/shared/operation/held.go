// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// creations describes the operations that create something: what they create, and how a person sets the id of a resource that
// exists.
var creations = map[Type]struct{ noun, wayOut string }{
	Create: {"cluster", "set spec.clusterID to its id. The cluster is later deleted with this object if the portal shows a name at that id " +
		"that the provider generated. Otherwise it is kept, unless spec.deletionPolicy is Delete"},
	CreateNetwork: {"network", "set spec.network.id to its id, and remove spec.network.cidr"},
	CreateVPC:     {noun: "vpc"}, // it is never held
}

// held holds a lost creation until the portal shows what became of it, or until a person decides. It never sends the request
// again. The portal is asked ever more rarely, with the backoff of refused requests.
func (m Runner) held(ctx context.Context, op *Operation) outcome.Outcome {
	if infrav1.DecisionRetry.MadeOn(m.Object, op.ID) {
		if err := m.learn(ctx, m.Writer.Persist, Event{Result: Abandoned}); err != nil {
			return outcome.Fail(err)
		}
		m.Backoff.Forget(string(op.Type))
		return outcome.RetryAfter(0) // with the request as it would be now
	}
	c := creations[op.Type]
	o := outcome.StallFor(0, infrav1.OutcomeUnknownReason,
		"the provider cannot know whether the portal created %s %q: %s. Check the portal. If the %s exists, %s. If the %s does not exist, allow one retry: %s",
		c.noun, op.Target, op.Unknown, c.noun, c.wayOut, c.noun, Command(m.Object, infrav1.DecisionRetry, op.ID))
	if m.Portal == nil || !m.sentToThisPortal(op) {
		return o
	}
	return m.Backoff.Do(string(op.Type), op.ID, func() outcome.Outcome {
		if found, ok := m.search(ctx, op); ok {
			return found
		}
		return o
	})
}

// search looks for the job of a lost creation, which the portal may not have known at first, and for the resource. The bool reports
// whether it found one of them, or has to wait for the rate limit. A job that succeeded without an id leads nowhere.
func (m Runner) search(ctx context.Context, op *Operation) (outcome.Outcome, bool) {
	if op.JobID != "" {
		reservation, err := m.reservePoll(op)
		if err != nil {
			return outcome.FromPortalError(err), cloud.IsRateLimited(err)
		}
		defer reservation.Cancel()
		job, err := m.Portal.Job(cloud.WithReservation(ctx, reservation), op.JobID)
		if _, named := createdBy(job, op); err == nil && (named || job.Status != cloud.JobSucceeded) {
			m.Backoff.Forget(pollKey)
			if err := m.learn(ctx, m.Writer.Change, Event{JobID: op.JobID}); err != nil {
				return outcome.Fail(err), true
			}
			return outcome.RetryAfter(0), true // the next pass follows the job
		}
	}
	found, err := m.Find(ctx)
	switch {
	case found.ID != "":
		return m.judgeFound(ctx, op, found), true
	case cloud.IsRateLimited(err):
		return outcome.FromPortalError(err), true
	}
	return outcome.Outcome{}, false
}

// judgeFound takes over the cluster that a lost creation made, once it runs. Until then its creation may fail, and leave a record that is no
// cluster.
func (m Runner) judgeFound(ctx context.Context, op *Operation, found cloud.Cluster) outcome.Outcome {
	runs, err := found.Runs(ctx, m.Portal)
	switch {
	case runs:
		return m.Finish(ctx, Succeeded, found.ID)
	case cloud.IsRateLimited(err):
		return outcome.FromPortalError(err)
	case m.Progress.StuckIn(op) > 0:
		return outcome.WaitFor(resendAfter, infrav1.CreatingReason, "the portal's answer to the %s was lost, but the portal lists that cluster (id %s). "+
			"The provider takes it over when it runs", op, found.ID)
	}
	return outcome.StallFor(0, infrav1.OutcomeUnknownReason, "the portal's answer to the %s was lost. The portal lists that cluster (id %s), but the cluster does "+
		"not run. Look at it at the portal. If its creation has failed, delete it there, and allow one retry: %s. Otherwise, %s",
		op, found.ID, Command(m.Object, infrav1.DecisionRetry, op.ID), creations[op.Type].wayOut)
}

// Find asks the portal for the cluster of an unfinished creation by its name. If it finds none, the ID is empty. A name that a person chose
// proves nothing, and if several clusters are found, it is unknown which one is ours. A network cannot be found.
func (m Runner) Find(ctx context.Context) (cloud.Cluster, error) {
	op := m.State.Last
	if !op.Is(Create) || !m.State.Record.Generated(op.Target) {
		return cloud.Cluster{}, nil
	}
	found, err := m.Portal.FindClusters(ctx, op.Target)
	if err != nil || len(found) != 1 {
		return cloud.Cluster{}, err
	}
	return found[0], nil
}

// createdBy returns the id of the resource that the job of the operation created, if its result names one.
func createdBy(job cloud.Job, op *Operation) (string, bool) {
	return job.CreatedID(cloud.Kind(creations[op.Type].noun), op.Target)
}

// Command returns the command by which a person decides about the id.
func Command(obj client.Object, decision infrav1.Decision, id string) string {
	kind := "portalcontrolplane"
	if _, ok := obj.(*infrav1.PortalCluster); ok {
		kind = "portalcluster"
	}
	return fmt.Sprintf("kubectl annotate %s %s -n %s --overwrite %s=%s", kind, obj.GetName(), obj.GetNamespace(), infrav1.DecisionAnnotation, decision.About(id))
}
