// SPDX-License-Identifier: Apache-2.0

// Package outcome describes how a step of a reconcile ended, and turns that into conditions and a ctrl.Result in one place.
//
// A step never sleeps and never returns a bare error of the portal. Its outcome is one of six kinds: done, wait (for a time or
// for an event), stalled (until a person changes something), retry (later, with nothing to report), blocked (by another step),
// or failed (unexpectedly). FromPortalError maps the portal's errors to outcomes. Backoff keeps a refused request from being
// sent again too soon.
//
// A message is `state: detail. What to do`. It begins in lower case, like an error, so that Prefix can put words in front of it.
// Conditions and events show it as a sentence.
package outcome

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Kind of an Outcome.
type Kind int

// The kinds.
const (
	Done    Kind = iota // the step has nothing left to do
	Wait                // the step is in progress. It runs again after a time, or when a watched object changes
	Stalled             // the step needs a person or a change of the spec. It is tried again slowly, if at all
	Retry               // the step could not find out anything (no token of the rate limit yet, stale cache). Conditions stay as they are
	Blocked             // the step waits for another step. Its condition is Unknown
	Failed              // the step met an unexpected error, which is logged
)

// pollPriority is the queue priority of an object that is reconciled again because a time has passed. It is that
// of the initial list, which steady requeues of a higher priority would starve.
const pollPriority = -100

// Outcome of a step. Reason and Message become a condition.
type Outcome struct {
	Kind         Kind
	Reason       string
	Message      string
	RequeueAfter time.Duration // when to reconcile again. 0: an event wakes the object
	Err          error
	Cause        error // for the log: the part of the cause that the message leaves out
}

// IsDone reports whether the step has nothing left to do.
func (o Outcome) IsDone() bool { return o.Kind == Done }

// In returns the outcome with the time after which to reconcile again.
func (o Outcome) In(after time.Duration) Outcome {
	o.RequeueAfter = after
	return o
}

// NoLaterThan returns the outcome with the time after which to reconcile again, if that is sooner. 0 means no time.
func (o Outcome) NoLaterThan(after time.Duration) Outcome {
	if after > 0 && (o.RequeueAfter == 0 || after < o.RequeueAfter) {
		o.RequeueAfter = after
	}
	return o
}

// Prefix returns the outcome with words in front of its message.
func (o Outcome) Prefix(format string, args ...any) Outcome {
	if o.Kind != Retry {
		o.Message = fmt.Sprintf(format, args...) + ": " + o.Message
	}
	return o
}

// With returns the outcome with one more sentence in its message.
func (o Outcome) With(text string) Outcome {
	if o.Message != "" {
		text = o.Message + ". " + text
	}
	o.Message = text
	return o
}

// DoneWith is the outcome of a step that is done and has a message.
func DoneWith(format string, args ...any) Outcome {
	return Outcome{Kind: Done, Message: fmt.Sprintf(format, args...)}
}

// DoneAs is the outcome of a step that is done, and whose condition has another reason than Ready.
func DoneAs(reason, message string) Outcome {
	return Outcome{Kind: Done, Reason: reason, Message: message}
}

// WaitFor is the outcome of a step in progress. If after is 0, an event wakes the object.
func WaitFor(after time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{Kind: Wait, Reason: reason, Message: fmt.Sprintf(format, args...), RequeueAfter: after}
}

// StallFor is the outcome of a step that waits for a person. If after is 0, it is not tried again until something changes.
func StallFor(after time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{Kind: Stalled, Reason: reason, Message: fmt.Sprintf(format, args...), RequeueAfter: after}
}

// BlockedBy is the outcome of a step that waits for another step.
func BlockedBy(reason, format string, args ...any) Outcome {
	return Outcome{Kind: Blocked, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RetryAfter is the outcome of a step that has nothing to report and runs again after a time.
func RetryAfter(after time.Duration) Outcome {
	return Outcome{Kind: Retry, RequeueAfter: max(after, time.Second)}
}

// Fail is the outcome of an unexpected error. A conflict is expected: another writer changed the object, so it is read again.
func Fail(err error) Outcome {
	if apierrors.IsConflict(err) {
		return RetryAfter(0)
	}
	return Outcome{Kind: Failed, Err: err}
}

// Result returns the ctrl.Result for the outcomes: the soonest of their times, at poll priority.
func Result(outcomes ...Outcome) ctrl.Result {
	var soonest Outcome
	for _, o := range outcomes {
		soonest = soonest.NoLaterThan(o.RequeueAfter)
	}
	if soonest.RequeueAfter == 0 {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: soonest.RequeueAfter, Priority: ptr.To(pollPriority)}
}

// Log logs the causes that no condition shows. The logger of the pass names the object. A cause that Backoff remembers is not
// logged again.
func Log(ctx context.Context, outcomes ...Outcome) {
	var written []string
	for _, o := range outcomes {
		if o.Cause == nil || slices.Contains(written, Text(o.Cause)) {
			continue
		}
		written = append(written, Text(o.Cause))
		ctrl.LoggerFrom(ctx).Info("The portal cannot be used", "reason", o.Reason, "cause", Text(o.Cause))
	}
}

// FirstError returns the error of the first step that failed unexpectedly, or nil.
func FirstError(outcomes ...Outcome) error {
	for _, o := range outcomes {
		if o.Kind == Failed {
			return o.Err
		}
	}
	return nil
}

// Names lists the names for a message, sorted, so that the message does not depend on their order.
func Names(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }

// Count is a number of things for a message: "1 Machine", "2 Machines".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
