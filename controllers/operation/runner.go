// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// Request is an operation as the controller of the object implements it.
type Request interface {
	// Send sends the one request that starts the operation.
	Send(ctx context.Context) (cloud.Created, error)
	// UpdateObject changes the object along with the operation. It runs in every write after the request: when the portal has
	// accepted it (JobID), when the answer is lost (Unknown), and when the operation has ended (Result). id is the id of the
	// resource that a successful creation created. cause is why the portal refused the request or the job failed. UpdateObject
	// must be idempotent.
	UpdateObject(op *Operation, id string, cause error)
}

// Preparer is a Request that checks something before the intent is stored. Prepare may ask the portal, but changes nothing.
type Preparer interface {
	Prepare(ctx context.Context) outcome.Outcome
}

// Finder is a creation that can be found after its answer was lost. Find returns "" if the portal does not know it.
type Finder interface {
	Find(ctx context.Context) (id string, err error)
}

// Runner runs the operations of one object.
type Runner struct {
	Object client.Object
	Writer Writer
	// Backoff of refused requests, and of polls of jobs.
	Backoff  *outcome.Backoff
	Recorder events.EventRecorder
	// Portal is nil while it cannot be called.
	Portal *cloud.Client
	// Flow names the object to the account's limiter.
	Flow string
	// Cluster is the portal cluster's id or name, for the log.
	Cluster string
	// UserID is the portal user that the object belongs to, if known. A resource that the portal does not know under another user
	// may exist.
	UserID string
	// Observe is called for every job that was seen to end. Optional.
	Observe func(t Type, failed bool, took time.Duration)
}

// Start reserves a token of the account's rate limit, stores the intent, sends the request and stores the result. It is done
// when the portal has accepted the request. RequeueAfter is then the time to poll the job.
func (m Runner) Start(ctx context.Context, op *Operation, r Request) outcome.Outcome {
	last, err := Load(m.Object)
	switch {
	case err != nil:
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	case !last.replaceableBy(op.Type):
		return outcome.Fail(fmt.Errorf("the %s cannot start before the %s has ended", op, last))
	case last.Is(op.Type) && last.ResendIn() > 0:
		return outcome.RetryAfter(last.ResendIn())
	}
	if refused, found := m.Refused(op); found {
		return refused
	}
	if p, ok := r.(Preparer); ok {
		if o := p.Prepare(ctx); !o.IsDone() {
			return m.refuse(op, o)
		}
	}
	class := ratelimit.Mutation
	if !op.Type.Repeatable() {
		class = ratelimit.Creation
	}
	reservation, err := m.Portal.Reserve(m.Flow, class)
	if err != nil {
		return outcome.FromPortalError(err)
	}
	defer reservation.Cancel()
	op.Portal = m.Portal.Address()
	if err := ctx.Err(); err != nil {
		return outcome.Fail(fmt.Errorf("start the %s: %w", op, err))
	}
	// From here on, the end of the pass must not stop the call. An intent that is stored without its answer counts as lost.
	ctx, cancel := Detach(ctx)
	defer cancel()
	if err := m.Writer.Change(ctx, m.Object, func() { Put(m.Object, op) }); err != nil {
		return outcome.Fail(fmt.Errorf("store the intent of the %s: %w", op, err))
	}
	return m.send(ctx, op, last, r, reservation)
}

// Refused returns the last refusal of this attempt, as long as it is too early to send the request again.
func (m Runner) Refused(op *Operation) (outcome.Outcome, bool) {
	return m.Backoff.Recall(string(op.Type), op.Attempt)
}

// send sends the request of a stored intent and stores the result. ctx must be detached from the reconcile.
func (m Runner) send(ctx context.Context, op, last *Operation, r Request, reservation *ratelimit.Reservation) outcome.Outcome {
	log := ctrl.LoggerFrom(ctx).WithValues("operation", op.ID, "type", op.Type, "target", op.Target, "portalCluster", m.Cluster)
	log.Info("Sending a request to the portal")
	created, err := r.Send(cloud.WithReservation(ctx, reservation))
	if err != nil {
		log.Info("The portal did not accept the request, or its answer was lost", "reason", outcome.FromPortalError(err).Reason, "error", err.Error())
		return m.notAccepted(ctx, op, last, r, err)
	}
	log.Info("The portal accepted the request", "jobID", created.Job.ID, "createdID", created.ID)
	if created.ID != "" {
		return m.Finish(ctx, op, Succeeded, created.ID, r)
	}
	op.JobID = created.Job.ID
	if err := m.Writer.Settle(ctx, m.Object, m.update(op, r)); err != nil {
		return outcome.Fail(err)
	}
	m.event(corev1.EventTypeNormal, infrav1.EventOperationStarted, op, "The portal accepted the %s (job %s)", op, op.JobID)
	return outcome.Outcome{RequeueAfter: m.running(op).RequeueAfter}
}

// update returns a change that stores the operation and calls UpdateObject.
func (m Runner) update(op *Operation, r Request) func() {
	return func() {
		r.UpdateObject(op, "", nil)
		Put(m.Object, op)
	}
}

// notAccepted stores the result of a call that failed. If the call may have taken effect, the operation is lost. If the portal
// refused the content of the request, the operation has ended. Any other error says nothing about the request, so the previous
// record is restored. An operation that was lost before then stays lost, even if the new call may have taken effect, because it
// is unknown which of the two runs.
func (m Runner) notAccepted(ctx context.Context, op, last *Operation, r Request, cause error) outcome.Outcome {
	unknown := cloud.IsUnknownOutcome(cause)
	if unknown && !last.Lost() {
		return m.markLost(ctx, op, cause.Error(), r)
	}
	refused := cloud.IsQuota(cause) || cloud.IsCapacity(cause) || cloud.IsInvalid(cause) || cloud.IsNotAllowed(cause)
	if refused && (!last.InFlight() || last.Type == op.Type) { // a refused deletion does not end the operation in flight
		if err := m.end(ctx, op, Refused, "", cause, r); err != nil {
			return outcome.Fail(err)
		}
	} else if err := m.Writer.Settle(ctx, m.Object, func() { Put(m.Object, last) }); err != nil {
		return outcome.Fail(err)
	}
	if unknown {
		return m.refuse(op, m.lost(ctx, last, r))
	}
	return m.refuse(op, outcome.FromPortalError(cause).Prefix("%s", op))
}

// Poll takes the operation in flight one step further, with one poll of its job at most. It is done when the operation has
// succeeded. After a failed job, the next Start of the same attempt returns the same outcome until its time has come.
func (m Runner) Poll(ctx context.Context, r Request) outcome.Outcome {
	op, err := Load(m.Object)
	switch {
	case err != nil:
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	case !op.InFlight():
		return outcome.Outcome{}
	case op.Type.Repeatable() && infrav1.DecisionAbandon.MadeOn(m.Object, op.ID):
		return m.abandon(ctx, op, r)
	case op.Lost():
		return m.lost(ctx, op, r)
	case op.JobID == "":
		// The manager stopped. The optimistic lock fails if this object came from a cache that does not have the answer yet.
		op.Unknown, op.Time = "the manager stopped during the call", metav1.Now()
		if err := m.Writer.Change(ctx, m.Object, m.update(op, r)); err != nil {
			return outcome.Fail(err)
		}
		return m.lost(ctx, op, r)
	case m.Portal == nil:
		return outcome.RetryAfter(time.Minute) // a change of the identity wakes the object
	case !m.sentToThisPortal(op):
		return outcome.StallFor(time.Minute, infrav1.AccountChangedReason, "the %s was sent to portal %s, but the identity names another one. "+
			"Correct baseURL of the identity", op, op.Portal)
	}
	return m.follow(ctx, op, r)
}

// follow polls the job, and stores how it ended.
func (m Runner) follow(ctx context.Context, op *Operation, r Request) outcome.Outcome {
	job, gone, o := m.pollJob(ctx, op)
	id, named := createdBy(job, op)
	switch {
	case gone && m.MayBeOtherUser(ctx):
		return outcome.StallFor(time.Minute, infrav1.AccountChangedReason, "the portal does not know job %s, which may belong to another "+
			"portal user. Put the credentials of the user that started the job into the identity Secret", op.JobID)
	case gone:
		return m.markLost(ctx, op, fmt.Sprintf("the portal does not know job %s", op.JobID), r)
	case !o.IsDone():
		return o.Prefix("%s", op)
	case job.Failed():
		return m.fail(ctx, op, job.Error, r)
	case !named && !op.Type.Repeatable():
		return m.markLost(ctx, op, fmt.Sprintf("job %s succeeded without an id", op.JobID), r)
	}
	return m.Finish(ctx, op, Succeeded, id, r)
}

// sentToThisPortal reports whether the operation was sent to the portal that the identity names. At another portal, the same id
// may belong to a cluster of another account.
func (m Runner) sentToThisPortal(op *Operation) bool {
	return op.Portal == "" || op.Portal == m.Portal.Address()
}

// MayBeOtherUser reports whether the identity belongs, or may belong, to another portal user than the object. A 404 then does
// not prove that the resource is gone (specification, HTTP status codes).
func (m Runner) MayBeOtherUser(ctx context.Context) bool {
	userID, err := m.Portal.UserID(ctx)
	return err != nil || m.UserID != "" && m.UserID != userID
}

// markLost stores that the operation is lost, and why. The provider does not send it again at once.
func (m Runner) markLost(ctx context.Context, op *Operation, why string, r Request) outcome.Outcome {
	ctx, cancel := Detach(ctx)
	defer cancel()
	op.Unknown, op.Time = why, metav1.Now()
	if err := m.Writer.Settle(ctx, m.Object, m.update(op, r)); err != nil {
		return outcome.Fail(err)
	}
	if !op.Type.Repeatable() {
		return m.held(ctx, op, r)
	}
	return m.refuse(op, m.lost(ctx, op, r))
}

// lost returns the outcome of a lost operation.
func (m Runner) lost(ctx context.Context, op *Operation, r Request) outcome.Outcome {
	if !op.Type.Repeatable() {
		return m.held(ctx, op, r)
	}
	return outcome.WaitFor(op.ResendIn(), infrav1.AnswerLostReason, "the portal's answer to the %s was lost: %s. The operation counts as running until the nodes show that "+
		"it is done, or until the provider sends it again%s", op, op.Unknown, m.wayToAbandon(op))
}

// Finish stores how the operation ended.
func (m Runner) Finish(ctx context.Context, op *Operation, result Result, id string, r Request) outcome.Outcome {
	if err := m.end(ctx, op, result, id, nil, r); err != nil {
		return outcome.Fail(err)
	}
	m.Backoff.Forget(string(op.Type))
	if _, done := op.words(id); result == Succeeded {
		m.event(corev1.EventTypeNormal, infrav1.EventOperationSucceeded, op, "%s", done)
	}
	return outcome.Outcome{}
}

// abandon ends the operation because a person asked for it. The provider does not send the same request again at once.
func (m Runner) abandon(ctx context.Context, op *Operation, r Request) outcome.Outcome {
	if err := m.end(ctx, op, Abandoned, "", nil, r); err != nil {
		return outcome.Fail(err)
	}
	m.event(corev1.EventTypeWarning, infrav1.EventOperationFailed, op, "Abandoned the %s: a person set annotation %s", op, infrav1.DecisionAnnotation)
	return m.refuse(op, outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the %s was abandoned. The provider decides again what to do", op))
}

// fail ends an operation whose job failed.
func (m Runner) fail(ctx context.Context, op *Operation, cause *cloud.Error, r Request) outcome.Outcome {
	if err := m.end(ctx, op, Failed, "", cause, r); err != nil {
		return outcome.Fail(err)
	}
	m.event(corev1.EventTypeWarning, infrav1.EventOperationFailed, op, "Job %s for the %s failed: %v", op.JobID, op, cause)
	o := outcome.FromPortalError(cause)
	if o.Kind == outcome.Retry || o.Reason == infrav1.InternalErrorReason {
		o = outcome.WaitFor(0, infrav1.JobFailedReason, "%v", cause)
	}
	return m.refuse(op, o.Prefix("job %s for the %s failed", op.JobID, op))
}

// end stores the result, and removes the annotations that name the operation.
func (m Runner) end(ctx context.Context, op *Operation, result Result, id string, cause error, r Request) error {
	ctx, cancel := Detach(ctx)
	defer cancel()
	return m.Writer.Settle(ctx, m.Object, func() {
		op.Result = result
		r.UpdateObject(op, id, cause)
		Put(m.Object, op)
		delete(m.Object.GetAnnotations(), infrav1.DecisionAnnotation)
	})
}

// Progress returns the outcome of Start or Poll for a condition. The condition stays False while an operation is in flight.
func Progress(op *Operation, o outcome.Outcome, reason string) outcome.Outcome {
	if !op.InFlight() || op.Lost() || !o.IsDone() && o.Kind != outcome.Retry {
		return o
	}
	return outcome.WaitFor(o.RequeueAfter, reason, "waiting for the portal to finish the %s (job %s)", op, op.JobID)
}

func (m Runner) refuse(op *Operation, o outcome.Outcome) outcome.Outcome {
	return m.Backoff.Refuse(string(op.Type), op.Attempt, o)
}

func (m Runner) event(kind, reason string, op *Operation, format string, args ...any) {
	if m.Recorder != nil {
		m.Recorder.Eventf(m.Object, nil, kind, reason, string(op.Type), format, args...)
	}
}
