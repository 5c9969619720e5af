// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// creations describes the operations that are not repeatable: what they create, and how a person sets the id of a resource that
// exists.
var creations = map[Type]struct{ noun, wayOut string }{
	Create:        {"cluster", "set spec.clusterID to its id"},
	CreateNetwork: {"network", "set spec.network.id to its id, and remove spec.network.cidr"},
}

// held holds a lost creation until it is found, or until a person decides. It never sends the request again.
func (m Runner) held(ctx context.Context, op *Operation, r Request) outcome.Outcome {
	if op.NamedBy(m.Object, infrav1.RetryOperationAnnotation) {
		if err := m.end(ctx, op, Abandoned, "", nil, r); err != nil {
			return outcome.Fail(err)
		}
		m.Memory.Backoff.Forget(m.key(op))
		return outcome.RetryAfter(0) // with the request as it would be now
	}
	var again time.Duration
	if finder, ok := r.(Finder); ok && !op.Searched && m.Portal != nil && m.sentToThisPortal(op) {
		o := m.search(ctx, op, finder, r)
		if o.IsDone() || o.Kind == outcome.Retry || o.Kind == outcome.Failed {
			return o
		}
		again = o.RequeueAfter
	}
	c := creations[op.Type]
	return outcome.StallFor(again, infrav1.OutcomeUnknownReason,
		"the provider cannot know whether the portal created %s %q: %s. Check the portal. If the %s exists, %s. If it does not, allow one retry: %s",
		c.noun, op.Target, op.Unknown, c.noun, c.wayOut, m.annotate(infrav1.RetryOperationAnnotation, op))
}

// search asks the portal once for the resource that may have been created.
func (m Runner) search(ctx context.Context, op *Operation, finder Finder, r Request) outcome.Outcome {
	key := m.Flow + "/find"
	if refused, found := m.Memory.Backoff.Recall(key, op.ID); found {
		return refused
	}
	id, err := finder.Find(ctx)
	switch {
	case err == nil && id != "":
		return m.Finish(ctx, op, Succeeded, id, r)
	case err != nil && !cloud.IsUnsupported(err):
		return m.Memory.Backoff.Refuse(key, op.ID, outcome.FromPortalError(err))
	}
	op.Searched = true
	if err := m.Writer.Change(ctx, m.Object, func() { Put(m.Object, op) }); err != nil {
		return outcome.Fail(err)
	}
	return outcome.StallFor(0, "", "")
}

// annotate returns the command by which a person sets the annotation to the id of the operation.
func (m Runner) annotate(annotation string, op *Operation) string {
	kind := "portalcontrolplane"
	if op.Type == CreateNetwork {
		kind = "portalcluster"
	}
	return fmt.Sprintf("kubectl annotate %s %s -n %s %s=%s", kind, m.Object.GetName(), m.Object.GetNamespace(), annotation, op.ID)
}
