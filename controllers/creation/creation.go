// SPDX-License-Identifier: Apache-2.0

// Package creation creates something at the portal exactly once, though the portal has no idempotency keys and the
// manager may die at any moment. It is the state machine of package journal for what must never be sent twice: portal
// clusters and networks.
//
//	no operation ── ticket, intent ──▶ intended ── 202 ──▶ accepted ── job ends ──▶ created, or failed (a new name)
//	      ▲                             │  │                  │
//	      │◀── definite refusal ────────┘  └── cut off ───────┴──▶ unknown ── found by name, or a person says ──▶ created
//	      │                                                         │
//	      └◀───────────────── a person allows one retry ────────────┘
//
// What can interrupt it: a conflict on the intent (nothing was sent), the end of the manager between intent and answer
// (unknown), an answer that cannot be read (unknown), a job that is gone or names no id (unknown).
package creation

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/jobs"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// Machinery is what creations share.
type Machinery struct {
	Writer  journal.Writer
	Jobs    *jobs.Follower
	Backoff *outcome.Backoff
	Slots   *Slots
}

// maxOpen is how many creations may be on the wire at one instant: as many as a crash may leave unknown.
const maxOpen = 4

// Slots bounds the creations on the wire. The zero value is ready to use.
type Slots struct{ open atomic.Int32 }

func (s *Slots) take() bool {
	if s.open.Add(1) <= maxOpen {
		return true
	}
	s.open.Add(-1)
	return false
}

func (s *Slots) free() { s.open.Add(-1) }

// Creation is one thing to be created for one object.
type Creation struct {
	Object client.Object
	Portal *cloud.Client
	Type   journal.Type
	// Target names the thing to people and in the journal; Noun is what kind of thing it is.
	Target, Noun string
	// Flow names the object to the account's governor, and to the backoff.
	Flow string
	// Attempt is a fingerprint of all that went into the request, but the name: a refused request is not sent again
	// before its time unless it changes.
	Attempt string
	// Reason is the condition's reason while the portal works on it.
	Reason string
	// WayOut says how a person settles an unknown outcome when the thing is there.
	WayOut string

	// Prepare runs before the intent is stored; it may ask the portal, but changes nothing. Optional.
	Prepare func(ctx context.Context) error
	// Call sends the request.
	Call func(ctx context.Context) (cloud.Created, error)
	// Taken asks, before the intent, for a thing of that name that is there already; optional.
	Taken func(ctx context.Context) (string, error)
	// Find asks the portal for a thing of that name; nil: there is no way to ask.
	Find func(ctx context.Context) (string, error)
	// Accepted changes the object in the same write that stores the job. Optional.
	Accepted func()
	// Stranger tells whether the job was started by another user of the portal, so that a 404 says nothing. Optional.
	Stranger func(ctx context.Context) bool
	// Created stores the id on the object; it runs in the same write that ends the operation.
	Created func(id string)
	// Failed changes the object after a job that failed; it runs in the same write that ends the operation.
	Failed func()
}

// Step takes the creation one step further. It is done when Created was stored.
func (m Machinery) Step(ctx context.Context, c Creation) outcome.Outcome {
	op, err := journal.Load(c.Object)
	switch {
	case err != nil:
		return outcome.HoldFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	case op == nil:
		return m.start(ctx, c)
	case op.Unknown != "":
		return m.unknown(ctx, c, op)
	case op.JobID == "":
		return m.orphaned(ctx, c, op)
	}
	return m.follow(ctx, c, op)
}

// start sends the request, after a ticket and an intent.
func (m Machinery) start(ctx context.Context, c Creation) outcome.Outcome {
	if refused, found := m.Backoff.Recall(c.Flow, c.Attempt); found {
		return refused
	}
	if c.Prepare != nil {
		if err := c.Prepare(ctx); err != nil {
			return m.Backoff.Refuse(c.Flow, c.Attempt, outcome.From(err))
		}
	}
	if o := m.taken(ctx, c); !o.IsDone() {
		return o
	}
	if !m.Slots.take() {
		return outcome.Come(time.Second)
	}
	defer m.Slots.free()
	ticket, err := c.Portal.Reserve(c.Flow, cloud.Mutation)
	if err != nil {
		return outcome.From(err)
	}
	defer ticket.Release()
	return m.send(ctx, c, ticket)
}

// taken holds if the portal has a thing of that name (specification, Limits 4: look the resource up first). A portal
// that does not answer that is no hindrance.
func (m Machinery) taken(ctx context.Context, c Creation) outcome.Outcome {
	if c.Taken == nil {
		return outcome.Outcome{}
	}
	id, err := c.Taken(ctx)
	switch {
	case err != nil && !cloud.IsUnsupported(err):
		return m.Backoff.Refuse(c.Flow, c.Attempt, outcome.From(err))
	case id != "":
		return m.Backoff.Refuse(c.Flow, c.Attempt, outcome.HoldFor(0, infrav1.RefusedReason,
			"the portal has a %s named %q already (id %s): %s, or choose another name", c.Noun, c.Target, id, c.WayOut))
	}
	return outcome.Outcome{}
}

// send stores the intent, makes the call and stores what came of it.
func (m Machinery) send(ctx context.Context, c Creation, ticket cloud.Ticket) outcome.Outcome {
	op := journal.New(c.Type, c.Target)
	op.Attempt = c.Attempt
	if err := m.Writer.Intend(ctx, c.Object, op); err != nil {
		return outcome.Fail(err)
	}
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	created, err := c.Call(cloud.WithTicket(ctx, ticket))
	if err != nil {
		return m.refused(ctx, c, op, err)
	}
	if created.ID != "" {
		return m.created(ctx, c, created.ID)
	}
	op.JobID = created.Job.ID
	err = m.Writer.Settle(ctx, c.Object, func() {
		journal.Put(c.Object, op)
		if c.Accepted != nil {
			c.Accepted()
		}
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return m.Jobs.Accepted(c.Portal, op, c.running(op))
}

// refused settles a call that failed: definitely, or with an outcome that nobody knows.
func (m Machinery) refused(ctx context.Context, c Creation, op *journal.Operation, cause error) outcome.Outcome {
	if cloud.IsUnknownOutcome(cause) {
		return m.lost(ctx, c, op, cause.Error())
	}
	if err := m.Writer.Settle(ctx, c.Object, func() { journal.Put(c.Object, nil) }); err != nil {
		return outcome.Fail(err)
	}
	return m.Backoff.Refuse(c.Flow, op.Attempt, outcome.From(cause).Prefix("create %s %q", c.Noun, c.Target))
}

// follow looks at the job.
func (m Machinery) follow(ctx context.Context, c Creation, op *journal.Operation) outcome.Outcome {
	job, gone, o := m.Jobs.Look(ctx, c.Portal, c.Flow, op)
	switch {
	case gone && c.Stranger != nil && c.Stranger(ctx):
		return outcome.HoldFor(time.Minute, infrav1.AccountChangedReason, "the portal does not know job %s, which may be another "+
			"user's: see to it that the identity Secret holds the credentials of the user that started it", op.JobID)
	case gone:
		return m.lost(ctx, c, op, fmt.Sprintf("the portal does not know job %s any more", op.JobID))
	case o.Kind == outcome.Later:
		running := c.running(op)
		running.After = o.After
		return running
	case !o.IsDone():
		return o.Prefix("create %s %q", c.Noun, c.Target)
	case job.Failed():
		return m.failed(ctx, c, op, job.Error)
	}
	id, ok := job.CreatedID(cloud.Kind(c.Noun), c.Target)
	if !ok {
		return m.lost(ctx, c, op, fmt.Sprintf("job %s succeeded without saying the id", op.JobID))
	}
	return m.created(ctx, c, id)
}

func (c Creation) running(op *journal.Operation) outcome.Outcome {
	return outcome.WaitFor(0, c.Reason, "the portal creates %s %q (job %s)", c.Noun, c.Target, op.JobID)
}

func (m Machinery) created(ctx context.Context, c Creation, id string) outcome.Outcome {
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	err := m.Writer.Settle(ctx, c.Object, func() {
		journal.Put(c.Object, nil)
		c.Created(id)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	m.Backoff.Forget(c.Flow)
	return outcome.Outcome{}
}

// failed ends an operation whose job failed. A record may remain at the portal, so Failed takes another name.
func (m Machinery) failed(ctx context.Context, c Creation, op *journal.Operation, cause *cloud.Error) outcome.Outcome {
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	err := m.Writer.Settle(ctx, c.Object, func() {
		journal.Put(c.Object, nil)
		c.Failed()
	})
	if err != nil {
		return outcome.Fail(err)
	}
	o := outcome.From(cause)
	if o.Kind == outcome.Later || o.Reason == infrav1.InternalErrorReason {
		o = outcome.WaitFor(0, infrav1.JobFailedReason, "%v", cause)
	}
	return m.Backoff.Refuse(c.Flow, op.Attempt, o.Prefix("job %s to create %s %q failed (a record of that name may remain at the portal)",
		op.JobID, c.Noun, c.Target))
}

// orphaned notes that the manager stopped between intent and answer. The optimistic lock makes sure that this was not
// read from a cache that has not seen the answer yet.
func (m Machinery) orphaned(ctx context.Context, c Creation, op *journal.Operation) outcome.Outcome {
	op.Unknown = "the manager stopped while the call was under way"
	if err := m.Writer.Change(ctx, c.Object, func() { journal.Put(c.Object, op) }); err != nil {
		return outcome.Fail(err)
	}
	return m.unknown(ctx, c, op)
}

// lost stores that the outcome is unknown, and why.
func (m Machinery) lost(ctx context.Context, c Creation, op *journal.Operation, why string) outcome.Outcome {
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	op.Unknown = why
	if err := m.Writer.Settle(ctx, c.Object, func() { journal.Put(c.Object, op) }); err != nil {
		return outcome.Fail(err)
	}
	m.Jobs.Forget(op.JobID)
	return m.unknown(ctx, c, op)
}

// unknown holds until the thing is found, or a person allows one retry. It never sends the request by itself.
func (m Machinery) unknown(ctx context.Context, c Creation, op *journal.Operation) outcome.Outcome {
	if journal.RetryAllowed(c.Object, op) {
		return m.retry(ctx, c)
	}
	var again time.Duration
	if c.Find != nil && !op.Searched {
		o := m.search(ctx, c, op)
		if o.IsDone() || o.Kind == outcome.Later || o.Kind == outcome.Failed {
			return o
		}
		again = o.After
	}
	return outcome.HoldFor(again, infrav1.OutcomeUnknownReason,
		"whether the portal created %s %q is unknown: %s. Look for it at the portal. If it is there, %s. If it is not, say so, "+
			"which allows one retry: kubectl annotate %s %s -n %s %s=%s", c.Noun, c.Target, op.Unknown, c.WayOut,
		kindOf(c.Object), c.Object.GetName(), c.Object.GetNamespace(), infrav1.RetryOperationAnnotation, op.ID)
}

func (m Machinery) retry(ctx context.Context, c Creation) outcome.Outcome {
	m.Backoff.Forget(c.Flow)
	err := m.Writer.Change(ctx, c.Object, func() {
		journal.Put(c.Object, nil)
		delete(c.Object.GetAnnotations(), infrav1.RetryOperationAnnotation)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Come(0) // with the request as it is to be now
}

// search asks the portal once whether the thing is there.
func (m Machinery) search(ctx context.Context, c Creation, op *journal.Operation) outcome.Outcome {
	if refused, found := m.Backoff.Recall(c.Flow+"/find", op.ID); found {
		return refused
	}
	id, err := c.Find(ctx)
	switch {
	case err == nil && id != "":
		return m.created(ctx, c, id)
	case err != nil && !cloud.IsUnsupported(err):
		if o := outcome.From(err); o.Kind == outcome.Later {
			return o
		}
		return m.Backoff.Refuse(c.Flow+"/find", op.ID, outcome.From(err))
	}
	op.Searched = true
	if err := m.Writer.Change(ctx, c.Object, func() { journal.Put(c.Object, op) }); err != nil {
		return outcome.Fail(err)
	}
	return outcome.HoldFor(0, "", "")
}

func kindOf(obj client.Object) string {
	if _, ok := obj.(*infrav1.PortalCluster); ok {
		return "portalcluster"
	}
	return "portalcontrolplane"
}
