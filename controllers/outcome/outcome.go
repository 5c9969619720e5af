// SPDX-License-Identifier: Apache-2.0

// Package outcome says how a step of a reconcile ended, and turns that into a ctrl.Result in one place.
//
// A step never sleeps and never returns a bare error of the portal. Its outcome is one of six kinds: it is done, it waits (for a time or
// for an event), it is stalled until a person changes something, it is retried later with nothing to report, it is blocked by another
// step, or it failed unexpectedly.
// From maps the portal's errors. Backoff keeps a refused request from being sent again too soon.
package outcome

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Kind of an Outcome.
type Kind int

// The kinds.
const (
	Done    Kind = iota // what the step wants is so
	Wait                // the step is under way; it is looked at again after a time, or when something watched changes
	Stalled             // only a person or a change of the spec gets the step further. It is tried again slowly, if at all
	Retry               // nothing can be said now (no ticket yet, stale cache). Conditions stay as they are
	Blocked             // another step has to get further first; conditions say Unknown
	Failed              // something unexpected, to be logged
)

// PollPriority is the queue priority of everything that is looked at again by time: below the -100 of the initial list,
// which steady requeues would starve otherwise.
const PollPriority = -100

// Outcome of a step. Reason and Message become a condition.
type Outcome struct {
	Kind    Kind
	Reason  string
	Message string
	After   time.Duration // when to look again; 0: an event will tell
	Err     error
	Cause   error // for the log: what the message must not say, or leaves out
}

// IsDone tells whether what the step wants is so.
func (o Outcome) IsDone() bool { return o.Kind == Done }

// In returns the outcome with the time to look again.
func (o Outcome) In(after time.Duration) Outcome {
	o.After = after
	return o
}

// NoLaterThan returns the outcome with the time to look again, if that is sooner; 0 is no time.
func (o Outcome) NoLaterThan(after time.Duration) Outcome {
	if after > 0 && (o.After == 0 || after < o.After) {
		o.After = after
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

// DoneBecause is a Done with something to tell.
func DoneBecause(reason, format string, args ...any) Outcome {
	return Outcome{Kind: Done, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// WaitFor is under way; after 0 means that an event will tell.
func WaitFor(after time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{Kind: Wait, Reason: reason, Message: fmt.Sprintf(format, args...), After: after}
}

// StallFor waits for a person. After 0 means until something changes.
func StallFor(after time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{Kind: Stalled, Reason: reason, Message: fmt.Sprintf(format, args...), After: after}
}

// BlockedBy waits for another step.
func BlockedBy(reason, format string, args ...any) Outcome {
	return Outcome{Kind: Blocked, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// RetryAfter looks again after a time, and has nothing to report.
func RetryAfter(after time.Duration) Outcome {
	return Outcome{Kind: Retry, After: max(after, time.Second)}
}

// Fail is an unexpected error. A conflict is none: somebody else wrote the object, so it is looked at again.
func Fail(err error) Outcome {
	if apierrors.IsConflict(err) {
		return RetryAfter(0)
	}
	return Outcome{Kind: Failed, Err: err}
}

// Result is the ctrl.Result for a list of outcomes: the soonest of their times, at poll priority.
func Result(outcomes ...Outcome) ctrl.Result {
	var soonest Outcome
	for _, o := range outcomes {
		soonest = soonest.NoLaterThan(o.After)
	}
	if soonest.After == 0 {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: soonest.After, Priority: ptr.To(PollPriority)}
}

// Log writes down the causes that no condition shows, under the logger of the pass, which names the object. A cause that is
// remembered (Backoff) is not written again.
func Log(ctx context.Context, outcomes ...Outcome) {
	var written []string
	for _, o := range outcomes {
		if o.Cause == nil || slices.Contains(written, o.Cause.Error()) {
			continue
		}
		written = append(written, o.Cause.Error())
		ctrl.LoggerFrom(ctx).Info("The portal cannot be used", "reason", o.Reason, "cause", o.Cause.Error())
	}
}

// FirstError is the error of the first step that failed in a way nobody foresaw.
func FirstError(outcomes ...Outcome) error {
	for _, o := range outcomes {
		if o.Kind == Failed {
			return o.Err
		}
	}
	return nil
}
