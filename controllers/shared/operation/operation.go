// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// Type of an operation.
type Type string

// The operations that the portal runs as jobs.
const (
	Create        Type = "create"
	Scale         Type = "scale"
	Upgrade       Type = "upgrade"
	Delete        Type = "delete"
	CreateNetwork Type = "create-network"
	CreateVPC     Type = "create-vpc"
)

// Repeatable reports whether the request can be sent again after its answer was lost. If not, the operation is held. A VPC is looked for
// by its name before, which is the only documented search (specification, Network endpoints).
func (t Type) Repeatable() bool { return t == Scale || t == Upgrade || t == Delete || t == CreateVPC }

// class returns the class of the request for the account's limiter.
func (t Type) class() ratelimit.Class {
	if t == Create || t == CreateNetwork || t == CreateVPC {
		return ratelimit.Creation
	}
	return ratelimit.Mutation
}

// Result is how an operation ended.
type Result string

// The results.
const (
	Succeeded Result = "Succeeded" // the portal's job succeeded, or the end state was seen
	Failed    Result = "Failed"    // the portal's job failed, or no effect of it was seen
	Refused   Result = "Refused"   // the portal refused the request for what it asks for
	Abandoned Result = "Abandoned" // a person ended it
)

// Operation is the last request for an object that changes something at the portal. It is in flight while it has no Result.
type Operation struct {
	// ID names the operation to people.
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Target is the wanted end state: a cluster name, a size, a version, a cluster id, a CIDR.
	Target string `json:"target"`
	// Time of the intent or, for a lost operation, the time at which it was lost.
	Time metav1.Time `json:"time"`
	// JobID of the portal. It is empty until the portal has answered.
	JobID string `json:"jobID,omitempty"`
	// Portal is the portal that the request was sent to (cloud.Address). Its job and its result are looked for there only.
	Portal string `json:"portal,omitempty"`
	// Attempt is a fingerprint of the request. After a failure the same attempt waits longer than another one. For a cluster's creation and
	// a scale, its first word is what the user asks for.
	Attempt string `json:"attempt,omitempty"`
	// Record is what the creation of a cluster asks for. It becomes the object's record when the portal accepts the request, or when
	// the cluster is found after the answer was lost.
	Record *Record `json:"record,omitempty"`
	// From is the size before a scale, or the largest that it may have been.
	From       int  `json:"from,omitempty"`
	FromAtMost bool `json:"fromAtMost,omitempty"`
	// Before are the worker nodes before a scale or an upgrade.
	Before []removal.NodeSnapshot `json:"before,omitempty"`
	// Digest identifies what the cluster showed before an upgrade: its nodes and their versions (lifecycle.Running).
	Digest string `json:"digest,omitempty"`
	// Obstacles are what could stop an upgrade when it was sent, for people.
	Obstacles string `json:"obstacles,omitempty"`
	// Work is what the nodes show of a scale or an upgrade.
	Work Work `json:"work,omitempty"`
	// Why is why the provider sends the request, for people.
	Why string `json:"why,omitempty"`
	// Unknown is the reason for which it is not known whether the portal runs the operation.
	Unknown string `json:"unknown,omitempty"`
	// Error is the portal's reason for which the job failed.
	Error string `json:"error,omitempty"`
	// Result is empty while the operation is in flight.
	Result Result `json:"result,omitempty"`
}

// New returns an operation whose intent is about to be stored.
func New(t Type, target string) *Operation {
	return &Operation{ID: rand.String(8), Type: t, Target: target, Time: metav1.Now()}
}

// InFlight reports whether the operation has not ended. A nil operation is not in flight.
func (o *Operation) InFlight() bool { return o != nil && o.Result == "" }

// Lost reports whether the operation is in flight and has no job to poll.
func (o *Operation) Lost() bool { return o.InFlight() && o.Unknown != "" }

// Is reports whether the operation, which may be nil, has the type.
func (o *Operation) Is(t Type) bool { return o != nil && o.Type == t }

// Size returns the number of workers that a scale asks for, or SizeUnknown if Target is not a number.
func (o *Operation) Size() int {
	if size, err := strconv.Atoi(o.Target); err == nil {
		return size
	}
	return SizeUnknown
}

// workers returns the number of workers that the operation asks for, or SizeUnknown.
func (o *Operation) workers() int {
	switch {
	case o.Is(Scale):
		return o.Size()
	case o.Is(Create) && o.Record != nil:
		return o.Record.Size
	}
	return SizeUnknown
}

// AttemptSize is the number of workers by which an attempt is known. 1 is asked right after 0, in case the portal refuses a cluster for its
// lack of workers, so both are one attempt.
func AttemptSize(workers int) int { return max(1, workers) }

// insistsOnWorkers reports whether the portal may have refused a cluster because it has no workers. The specification names neither a lower
// bound nor the code of that refusal, and its field is optional. If the portal refuses one worker, too, it was for another reason (State.After).
// OPERATION_NOT_ALLOWED is about the cluster's state, such as Alert (specification, Error codes).
func insistsOnWorkers(op *Operation, cause error) bool {
	var refusal *cloud.Error
	return op.workers() == 0 && cloud.IsInvalid(cause) && errors.As(cause, &refusal) && (refusal.Field == "" || refusal.Field == "size")
}

// RemovesNodes reports whether the operation is a scale to fewer workers.
func (o *Operation) RemovesNodes() bool { return o.Is(Scale) && o.Size() < o.From }

const (
	// stuckAfter is how long a job may show no progress before it counts as stuck. It also bounds the search for a lost VPC.
	stuckAfter = cloud.StuckAfter
	// resendAfter is how long the provider waits for the effect of a lost operation before it may send it again.
	resendAfter = 30 * time.Second
)

// ResendIn returns how long a lost operation still waits before it may be sent again.
func (o *Operation) ResendIn() time.Duration {
	if !o.Lost() {
		return 0
	}
	return max(0, time.Until(o.Time.Add(resendAfter)))
}

// replaceableBy reports whether a request of type next may be sent while the operation is in flight. A lost operation may be
// running, so only a request of the same type may replace it. A deletion may replace anything but a deletion.
func (o *Operation) replaceableBy(next Type) bool {
	switch {
	case !o.InFlight():
		return true
	case !o.Type.Repeatable():
		return false
	}
	return o.Lost() && o.Type == next || next == Delete && o.Type != Delete
}

// String names the operation in conditions and events.
func (o *Operation) String() string {
	noun, _ := o.words("")
	return noun
}

// words returns the operation as a noun, and what it did if it succeeded. id is the id of the resource that it created.
func (o *Operation) words(id string) (noun, done string) {
	switch o.Type {
	case Create:
		return fmt.Sprintf("creation of cluster %q", o.Target), fmt.Sprintf("Created cluster %s (id %s)", o.Target, id)
	case CreateNetwork:
		return "creation of network " + o.Target, fmt.Sprintf("Created network %s from %s", id, o.Target)
	case CreateVPC:
		return fmt.Sprintf("creation of VPC %q", o.Target), fmt.Sprintf("Created VPC %s (id %s)", o.Target, id)
	case Scale:
		from := strconv.Itoa(o.From)
		if o.FromAtMost {
			from = "at most " + from
		}
		change := fmt.Sprintf(" from %s to %s workers", from, o.Target)
		return "scale" + change, "Scaled" + change
	case Upgrade:
		return "upgrade to " + o.Target, "Upgraded to " + o.Target
	case Delete:
	}
	return "deletion of cluster " + o.Target, "Deleted cluster " + o.Target
}

// because returns why the provider sent the request, to be added to a sentence.
func (o *Operation) because() string {
	if o.Why == "" {
		return ""
	}
	return ". Reason: " + o.Why
}
