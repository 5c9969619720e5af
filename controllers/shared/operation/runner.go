// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// Send sends the one request that starts an operation.
type Send func(ctx context.Context) (cloud.Created, error)

// Runner runs the operations of one object.
type Runner struct {
	Object client.Object
	// State of the object. It changes when a new one is stored.
	State  *State
	Writer persist.Writer
	// Calls are the creations under way.
	Calls *Calls
	// Backoff of refused requests, and of polls of jobs.
	Backoff *outcome.Backoff
	// Progress of the operation in flight. It is nil if nothing shows it.
	Progress *LastProgress
	Recorder events.EventRecorder
	// Portal is nil while it cannot be called.
	Portal *cloud.Client
	// CreationsHeld: nothing is created (infrav1.CreationsHeld).
	CreationsHeld bool
	// Flow names the object to the account's limiter.
	Flow string
	// Cluster is the portal cluster's id or name, for the log.
	Cluster string
	// Observe is called for every job that was seen to end. Optional.
	Observe func(t Type, failed bool, took time.Duration)
}

// Start reserves a token of the account's rate limit, stores the intent, sends the request and stores the result. It is done
// when the portal has accepted the request. RequeueAfter is then the time to poll the job. The error is the portal's, if the
// request was sent and not accepted. A creation whose answer takes long goes on in the background.
func (m Runner) Start(ctx context.Context, op *Operation, send Send) (outcome.Outcome, error) {
	before := *m.State
	switch last := before.Last; {
	case !last.replaceableBy(op.Type):
		return outcome.Fail(fmt.Errorf("the %s cannot start before the %s has ended", op, last)), nil
	case last.Is(op.Type) && last.ResendIn() > 0:
		return outcome.RetryAfter(last.ResendIn()), nil
	}
	if refused, found := m.Refused(op); found {
		return refused, nil
	}
	reservation, err := m.Portal.Reserve(m.Flow, op.Type.class())
	if err != nil {
		return outcome.FromPortalError(err), nil
	}
	op.Portal = m.Portal.Address()
	inBackground := op.Type.class() == ratelimit.Creation
	if inBackground && !m.Calls.begin(op) {
		reservation.Cancel()
		return outcome.RetryAfter(time.Minute), nil // the manager is about to stop, and the next one sends the creation
	}
	// From here on, the end of the pass must not stop the call. An intent that is stored without its answer counts as lost.
	detached, end := persist.Detach(cloud.WithReservation(ctx, reservation), callTime(op.Type))
	finish := func() {
		reservation.Cancel()
		if end(); inBackground {
			m.Calls.end(op)
		}
	}
	handedOver := false
	defer func() {
		if !handedOver {
			finish()
		}
	}()
	if err := m.intend(ctx, detached, op); err != nil {
		return outcome.Fail(err), nil
	}
	if inBackground {
		handedOver = true
		return m.sendInBackground(detached, finish, before, send)
	}
	return m.send(detached, before, send)
}

// intend stores the intent. A pass that is over stores none.
func (m Runner) intend(pass, detached context.Context, op *Operation) error {
	if err := pass.Err(); err != nil {
		return fmt.Errorf("start the %s: %w", op, err)
	}
	intent := State{Record: m.State.Record, Last: op}
	if err := m.Writer.Change(detached, m.Object, func() { intent.Put(m.Object) }); err != nil {
		return fmt.Errorf("store the intent of the %s: %w", op, err)
	}
	*m.State = intent
	return nil
}

// send sends the request of a stored intent and stores the result. ctx must be detached from the reconcile. before is the state
// before the intent.
func (m Runner) send(ctx context.Context, before State, send Send) (outcome.Outcome, error) {
	op := m.State.Last
	log := ctrl.LoggerFrom(ctx).WithValues("operation", op.ID, "type", op.Type, "target", op.Target, "portalCluster", m.Cluster)
	log.Info("Sending a request to the portal", "why", op.Why)
	created, err := send(ctx)
	if err != nil {
		log.Info("The portal did not accept the request, or its answer was lost", "reason", outcome.FromPortalError(err).Reason, "error", outcome.Text(err))
		return m.notAccepted(ctx, before, err), err
	}
	log.Info("The portal accepted the request", "jobID", created.Job.ID, "createdID", created.ID)
	if created.ID != "" {
		return m.Finish(ctx, Succeeded, created.ID), nil
	}
	if err := m.learn(ctx, m.Writer.Persist, Event{JobID: created.Job.ID}); err != nil {
		return outcome.Fail(err), nil
	}
	op = m.State.Last
	m.event(corev1.EventTypeNormal, infrav1.EventOperationStarted, op, "The portal accepted the %s (job %s)%s", op, op.JobID, op.because())
	return outcome.Outcome{RequeueAfter: m.running(op).RequeueAfter}, nil
}

// learn stores what became known about the last operation.
func (m Runner) learn(ctx context.Context, store func(context.Context, client.Object, func()) error, e Event) error {
	return m.amend(ctx, store, func(s State) State {
		next := s.After(e)
		e.put(m.Object, next)
		return next
	})
}

// amend stores another state. It starts from what the object stores, because the answer to a creation may come while passes go on. If the
// operation has ended or was replaced by then, nothing is stored, and the error says so.
func (m Runner) amend(ctx context.Context, store func(context.Context, client.Object, func()) error, change func(State) State) error {
	ctx, cancel := persist.Detach(ctx, callTimeout)
	defer cancel()
	op, next, late := m.State.Last, *m.State, false
	err := store(ctx, m.Object, func() {
		next = *m.State
		if stored, unreadable := Load(m.Object); unreadable == nil && stored.Last != nil {
			next = stored
		}
		if late = next.Last.ID != op.ID || !next.Last.InFlight(); !late {
			next = change(next)
			next.Put(m.Object)
		}
	})
	if err != nil {
		return err
	}
	*m.State = next
	if late {
		return fmt.Errorf("the %s was ended or replaced before its result was known", op)
	}
	return nil
}

// notAccepted stores the result of a call that failed. If the call may have taken effect, the operation is lost. If the portal
// refused the content of the request, the operation has ended. Any other error says nothing about the request, so the state before
// it is restored. An operation that was lost before then stays lost, even if the new call may have taken effect, because it is
// unknown which of the two runs.
func (m Runner) notAccepted(ctx context.Context, before State, cause error) outcome.Outcome {
	op, last, unknown := m.State.Last, before.Last, cloud.IsUnknownOutcome(cause)
	if unknown && !last.Lost() {
		return m.markLost(ctx, outcome.Text(cause))
	}
	if refusesContent(cause) && (!last.InFlight() || last.Type == op.Type) { // a refused deletion does not end the operation in flight
		result := Refused
		if last.Lost() {
			result = Failed // the portal may have carried out a part of the lost one
		}
		none := insistsOnWorkers(op, cause)
		if err := m.learn(ctx, m.Writer.Persist, Event{Result: result, NoWorkers: none}); err != nil {
			return outcome.Fail(err)
		}
		if none {
			return outcome.RetryAfter(0) // one worker is asked for at once. If that is refused, the attempt waits
		}
	} else {
		restore := func(s State) State { return State{Record: s.Record, Last: last} }
		if err := m.amend(ctx, m.Writer.Persist, restore); err != nil {
			return outcome.Fail(err)
		}
	}
	if unknown {
		return m.Refuse(op, m.lost(ctx))
	}
	return m.Refuse(op, m.refusal(ctx, op, cause))
}

// refusal returns the outcome of a request that was not accepted. It is remembered, so it must be what the user reads until the next attempt.
func (m Runner) refusal(ctx context.Context, op *Operation, cause error) outcome.Outcome {
	if op.Type == Delete && cloud.IsNotFound(cause) {
		if hidden := m.NotFound(ctx, "cluster "+op.Target+outcome.RequestID(cause)); hidden.Kind == outcome.Stalled {
			hidden.Message += ", or set spec.deletionPolicy to Retain if the cluster is gone"
			return hidden
		}
	}
	return outcome.FromPortalError(cause).Prefix("%s", op)
}

// Poll takes the operation in flight one step further, with one poll of its job at most. It is done when the operation has
// succeeded. After a failed job, the next Start of the same attempt returns the same outcome until its time has come.
func (m Runner) Poll(ctx context.Context) outcome.Outcome {
	op := m.State.Last
	switch {
	case !op.InFlight():
		return outcome.Outcome{}
	case op.Type.Repeatable() && infrav1.DecisionAbandon.MadeOn(m.Object, op.ID):
		return m.abandon(ctx)
	case op.Lost():
		return m.lost(ctx)
	case op.JobID == "" && m.Calls.awaits(op):
		return m.awaiting(op)
	case op.JobID == "":
		// The manager stopped. The optimistic lock fails if this object came from a cache that does not have the answer yet.
		if err := m.learn(ctx, m.Writer.Change, Event{Unknown: "the manager stopped during the call", At: metav1.Now()}); err != nil {
			return outcome.Fail(err)
		}
		return m.lost(ctx)
	case m.Portal == nil:
		return outcome.RetryAfter(time.Minute) // a change of the identity wakes the object
	case !m.sentToThisPortal(op):
		return m.sentElsewhere(op)
	}
	return m.follow(ctx, op)
}

// follow polls the job, and stores how it ended.
func (m Runner) follow(ctx context.Context, op *Operation) outcome.Outcome {
	job, gone, o := m.pollJob(ctx, op)
	if gone {
		what := "job " + op.JobID + o.Message
		if hidden := m.NotFound(ctx, what); !hidden.IsDone() {
			return hidden.NoLaterThan(time.Minute)
		}
		return m.markLost(ctx, "the portal does not know "+what)
	}
	id, named := createdBy(job, op)
	switch {
	case !o.IsDone():
		return o.Prefix("%s", op)
	case job.Failed():
		return m.fail(ctx, op, job.Error)
	case !named && !op.Type.Repeatable():
		return m.markLost(ctx, fmt.Sprintf("job %s succeeded without an id", op.JobID))
	}
	return m.Finish(ctx, Succeeded, id)
}

// sentElsewhere returns the outcome of an operation that was sent to another portal than the identity names.
func (m Runner) sentElsewhere(op *Operation) outcome.Outcome {
	o := outcome.StallFor(time.Minute, infrav1.AccountChangedReason, "the %s was sent to portal %s, but the identity names another one. "+
		"Correct baseURL of the identity", op, op.Portal)
	if op.Type == Create {
		o.Message += ". If the same portal has a new URL: " + Command(m.Object, infrav1.DecisionTrust, m.Portal.Address())
	}
	return o
}

// sentToThisPortal reports whether the operation was sent to the portal that the identity names. At another portal, the same id
// may belong to a cluster of another account.
func (m Runner) sentToThisPortal(op *Operation) bool {
	return op.Portal == "" || op.Portal == m.Portal.Address()
}

// NotFound interprets the portal's answer that it does not know something of the object. The answer proves that it does not exist
// only under the portal user that the object belongs to (specification, HTTP status codes: a 404 may mean another account's). Then
// NotFound is done.
func (m Runner) NotFound(ctx context.Context, what string) outcome.Outcome {
	user, err := m.Portal.UserID(ctx)
	switch owner := m.State.Record.UserID; {
	case err != nil:
		o := outcome.Unanswered(err)
		o.Cause = err
		return o
	case owner != "" && owner != user:
		return outcome.StallFor(0, infrav1.AccountChangedReason, "the portal does not know %s, which belongs to portal user %s. Put that user's "+
			"credentials into the identity Secret", what, owner)
	}
	return outcome.Outcome{}
}

// markLost stores that the operation is lost, and why. The provider does not send it again at once.
func (m Runner) markLost(ctx context.Context, why string) outcome.Outcome {
	if err := m.learn(ctx, m.Writer.Persist, Event{Unknown: why, At: metav1.Now()}); err != nil {
		return outcome.Fail(err)
	}
	if op := m.State.Last; op.Type.Repeatable() { // otherwise a condition waits for a person, which is an event too
		m.event(corev1.EventTypeWarning, infrav1.AnswerLostReason, op, "The portal may run the %s, but its answer was lost: %s%s", op, why, op.because())
		return m.Refuse(op, m.lost(ctx))
	}
	return m.lost(ctx)
}

// lost returns the outcome of a lost operation.
func (m Runner) lost(ctx context.Context) outcome.Outcome {
	op := m.State.Last
	if !op.Type.Repeatable() {
		return m.held(ctx, op)
	}
	shown := "the nodes show"
	if op.Type == CreateVPC {
		shown = "the portal's list of VPCs shows"
	}
	return outcome.WaitFor(op.ResendIn(), infrav1.AnswerLostReason, "the portal's answer to the %s was lost: %s. The operation counts as running until %s that "+
		"it is done, or until the provider sends it again%s", op, op.Unknown, shown, m.wayToAbandon(op))
}

// Finish stores how the operation in flight ended. createdID is the id of the resource that a creation created.
func (m Runner) Finish(ctx context.Context, result Result, createdID string) outcome.Outcome {
	if err := m.learn(ctx, m.Writer.Persist, Event{Result: result, CreatedID: createdID}); err != nil {
		return outcome.Fail(err)
	}
	op := m.State.Last
	m.Backoff.Forget(string(op.Type))
	if _, done := op.words(createdID); result == Succeeded {
		m.event(corev1.EventTypeNormal, infrav1.EventOperationSucceeded, op, "%s", done)
	}
	return outcome.Outcome{}
}

// abandon ends the operation because a person asked for it. The provider does not send the same request again at once.
func (m Runner) abandon(ctx context.Context) outcome.Outcome {
	if err := m.learn(ctx, m.Writer.Persist, Event{Result: Abandoned}); err != nil {
		return outcome.Fail(err)
	}
	op := m.State.Last
	m.event(corev1.EventTypeWarning, infrav1.EventOperationFailed, op, "Abandoned the %s: a person set annotation %s", op, infrav1.DecisionAnnotation)
	return m.Refuse(op, outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the %s was abandoned. The provider decides again what to do", op))
}

// fail ends an operation whose job failed. A creation may have left something at the portal, unless the job's error is a refusal. Whether
// another job has worked on nodes, the nodes show later (lifecycle).
func (m Runner) fail(ctx context.Context, op *Operation, cause *cloud.Error) outcome.Outcome {
	err := m.learn(ctx, m.Writer.Persist, Event{
		Result: Failed, At: metav1.Now(), Error: outcome.Text(cause), Costly: op.creates() && !refusesContent(cause), NextName: nextName(op.Target),
	})
	if err != nil {
		return outcome.Fail(err)
	}
	m.event(corev1.EventTypeWarning, infrav1.EventOperationFailed, op, "Job %s for the %s failed: %s", op.JobID, op, outcome.Text(cause))
	o := outcome.FromPortalError(cause)
	if o.Kind == outcome.Retry || o.Reason == infrav1.InternalErrorReason {
		o = outcome.WaitFor(0, infrav1.JobFailedReason, "%s", outcome.Text(cause))
	}
	if op.Is(Create) && len(m.State.Record.AbandonedNames) > maxRepeats {
		o.RequeueAfter = max(o.RequeueAfter, repeatPause) // each refusal by a job leaves a name behind
	}
	return m.Refuse(op, o.Prefix("job %s for the %s failed", op.JobID, op))
}

// GeneratedLength is the length of the random part at the end of a generated name.
const GeneratedLength = 5

// nextName returns another generated name with the same beginning.
func nextName(name string) string {
	return name[:max(0, len(name)-GeneratedLength)] + rand.String(GeneratedLength)
}

// Progress returns the outcome of Start or Poll for a condition. The condition stays False while an operation is in flight.
func Progress(op *Operation, o outcome.Outcome, reason string) outcome.Outcome {
	if !op.InFlight() || op.Lost() || !o.IsDone() && o.Kind != outcome.Retry {
		return o
	}
	return outcome.WaitFor(o.RequeueAfter, reason, "waiting for the portal to finish the %s (job %s)", op, op.JobID)
}

func (m Runner) event(kind, reason string, op *Operation, format string, args ...any) {
	if m.Recorder != nil {
		m.Recorder.Eventf(m.Object, nil, kind, reason, string(op.Type), format, args...)
	}
}
