// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const (
	// maxRepeats is how often the provider repeats a costly failure without a person.
	maxRepeats = 2
	// repeatPause is how long it waits before. A person who is told of the failure has time to remove the cause, and a day still has all
	// attempts.
	repeatPause = 2 * time.Hour
	// maxAbandonedNames is how many names of failed creations are kept. They take 7 KB of the annotations, which may have 256.
	maxAbandonedNames = 100
)

// Failures are costly failures of one type of operation that came one after the other: jobs that failed after they had worked on nodes, or
// creations that may have left something at the portal.
type Failures struct {
	// Request is what the operations asked for. Another request starts over.
	Request string `json:"request"`
	// Count of the failures.
	Count int `json:"count"`
	// ID of the last operation. A person's decision names it.
	ID string `json:"id"`
	// Time of the last failure, and the portal's reason for it.
	Time  metav1.Time `json:"time"`
	Error string      `json:"error,omitempty"`
}

// Work is what the nodes show of an operation that may have worked on them. It decides whether a failure is costly.
type Work string

// What the nodes show. It is empty until something is known.
const (
	WorkSeen   Work = "Seen"   // the portal works on nodes, or has: they differ from those before the request
	WorkCostly Work = "Costly" // the operation failed after it had worked on nodes. It is in Record.Failures
	WorkNone   Work = "None"   // the operation failed, and repeating it costs nothing
)

// request identifies what the user asks for, by the first word of Attempt or by Target. After a failure, a creation has another name, and a
// scale another step on its way. Neither they nor other credentials make another request.
func (o *Operation) request() string {
	if o.Type != Create && o.Type != Scale {
		return o.Target
	}
	request, _, _ := strings.Cut(o.Attempt, " ")
	return request
}

// creates reports whether the operation creates something, which may remain at the portal after a failure.
func (o *Operation) creates() bool {
	_, found := creations[o.Type]
	return found
}

// Failed returns the record after a costly failure of the operation.
func (r Record) Failed(op *Operation, at metav1.Time) Record {
	f := Failures{Request: op.request(), Count: 1, ID: op.ID, Time: at, Error: cmp.Or(op.Error, op.Unknown)}
	if before, found := r.Failures[op.Type]; found && before.Request == f.Request {
		f.Count += before.Count
	}
	all := maps.Clone(r.Failures)
	if all == nil {
		all = map[Type]Failures{}
	}
	all[op.Type], r.Failures = f, all
	return r
}

// succeeded returns the record after an operation of the type has succeeded.
func (r Record) succeeded(t Type) Record {
	if _, found := r.Failures[t]; found {
		r.Failures = maps.Clone(r.Failures)
		delete(r.Failures, t)
	}
	return r
}

// refusesContent reports whether the portal refuses what a request asks for, at once or by the error of its job. Some portals check a request
// only in the job.
func refusesContent(err error) bool {
	return cloud.IsQuota(err) || cloud.IsCapacity(err) || cloud.IsInvalid(err) || cloud.IsNotAllowed(err)
}

// braked returns what a request waits for because the same one has failed at a cost. The bool reports whether it waits.
func (m Runner) braked(op *Operation) (outcome.Outcome, bool) {
	f, found := m.State.Record.Failures[op.Type]
	if !found || f.Request != op.request() || infrav1.DecisionRetry.MadeOn(m.Object, f.ID) {
		return outcome.Outcome{}, false
	}
	what, because, change := m.brakeWords(op)
	allow := Command(m.Object, infrav1.DecisionRetry, f.ID)
	if f.Count > maxRepeats {
		return outcome.StallFor(0, infrav1.OperationStoppedReason, "%d jobs for the %s. The provider does not repeat it, because %s. "+
			"The last error was: %s. Remove the cause, and allow one more job: %s. Or %s", f.Count, what, because, f.Error, allow, change), true
	}
	if wait := time.Until(f.Time.Add(repeatPause)); wait > 0 {
		return outcome.WaitFor(wait, infrav1.JobFailedReason, "the job for the %s: %s. The provider repeats it %d hours after the failure, "+
			"and stops after %d repetitions, because %s. Remove the cause. To allow the next job at once: %s",
			what, f.Error, int(repeatPause.Hours()), maxRepeats, because, allow), true
	}
	return outcome.Outcome{}, false
}

// brakeWords returns what failed, why repeating it may cost something, and how the user asks for something else.
func (m Runner) brakeWords(op *Operation) (what, because, change string) {
	switch names := m.State.Record.AbandonedNames; {
	case op.Is(Create) && len(names) > 0:
		return "creation of the cluster failed", "each job may leave a cluster at the portal, perhaps billed: look there for the names " +
			strings.Join(names, ", "), "change the spec"
	case op.creates():
		return op.String() + " failed", "each job may leave something at the portal", "change the spec"
	case op.Is(Scale):
		return op.String() + " failed after changing nodes", "each job may drain nodes again", "set other replicas"
	}
	return op.String() + " failed after working on nodes", "each job may drain all nodes again", "set another spec.version"
}

// Refused returns why the request must not be sent: creations are held, or the last refusal or failure of this attempt, as long as it is too
// early to send it again.
func (m Runner) Refused(op *Operation) (outcome.Outcome, bool) {
	if m.CreationsHeld && op.creates() {
		return outcome.StallFor(0, infrav1.CreationsHeldReason, "the identity holds creations (key %s of its Secret), so the portal is not asked for the %s. "+
			"If the portal has it already, set its id in spec. If not, set the key to %s", infrav1.IdentityCreations, op, infrav1.CreationsAllowed), true
	}
	if o, braked := m.braked(op); braked {
		return o, true
	}
	return m.Backoff.Recall(string(op.Type), op.Attempt)
}

// Refuse remembers that the attempt was refused.
func (m Runner) Refuse(op *Operation, o outcome.Outcome) outcome.Outcome {
	return m.Backoff.Refuse(string(op.Type), op.Attempt, o)
}
