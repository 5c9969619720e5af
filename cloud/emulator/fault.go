// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"time"
)

// Fault is something that goes wrong, as data: which calls it affects, and what happens to them. A call may be affected
// by several faults. If two set the same thing, the one injected first counts. Calls refused by the rate limit are
// not affected and not counted.
type Fault struct {
	// ID names the fault in the request log and for its removal. Default: made up.
	ID string `json:"id,omitempty"`

	// Method, Path and Account select calls. Empty selects all. Path is an endpoint's template, as in
	// /jobs/{job_id}, or a path without the base path, where * matches one segment.
	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"`
	Account string `json:"account,omitempty"`
	// Scale selects only calls that scale a cluster in that direction.
	Scale ScaleDirection `json:"scale,omitempty"`
	// State selects only calls on a cluster that is in that state.
	State ClusterState `json:"state,omitempty"`
	// Nth is the first of the selected calls that is affected, counted from 1. Calls before it are not affected.
	Nth int `json:"nth,omitempty"`
	// Count is how many calls are affected. 0 means all.
	Count int `json:"count,omitempty"`
	// For is how long calls are affected, from the first one that is. 0 means until the fault is removed. With Count, what
	// comes first ends it.
	For time.Duration `json:"-"`
	// Probability with which each of them is affected, from the portal's seed. 0 means always.
	Probability float64 `json:"probability,omitempty"`

	// After has Delay, Status, Code, Cut and RevokeToken happen after the work. Otherwise they happen before it, and
	// Status, Code and Cut in its stead.
	After bool `json:"after,omitempty"`
	// Delay of the answer. The work is done even if the caller does not wait for it.
	Delay time.Duration `json:"-"`
	// DelayUpTo has each answer wait for a random time from Delay to DelayUpTo. 0 has all wait for Delay.
	DelayUpTo time.Duration `json:"-"`
	// Status and Code refuse the call. Each has a default that matches the other. Message and Field go along. Status 200 goes with a Body:
	// the answer is a success, and nothing is done.
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
	// RetryAfter goes with a refusal, in seconds or as a date (Shapes.RetryAfterDate).
	RetryAfter time.Duration `json:"-"`
	// Cut ends the connection without an answer.
	Cut bool `json:"cut,omitempty"`
	// Body spoils the body of any answer.
	Body BodyFault `json:"body,omitempty"`

	// Job is what goes wrong with the job that the call starts.
	Job JobFault `json:"job,omitempty"`
	// JobCode and JobMessage are the failed job's error. Default: INTERNAL_ERROR.
	JobCode    string `json:"jobCode,omitempty"`
	JobMessage string `json:"jobMessage,omitempty"`
	// JobNodes is how many nodes a job that fails half way (JobFailsHalfway) adds, removes or upgrades before. Default: half of
	// what it was to do, rounded down.
	JobNodes int `json:"jobNodes,omitempty"`
	// JobDelay is added to the job's duration.
	JobDelay time.Duration `json:"-"`
	// LeaveNodes has the job, a scale-down, remove machines and leave their Node objects behind.
	LeaveNodes bool `json:"leaveNodes,omitempty"`
	// Drain has the job, a scale-down or an upgrade, drain each node before it removes or upgrades the node: it cordons it, and evicts its
	// Pods through the eviction API for at most that long. If Pods are left, the job fails, and the node stays cordoned. A scale-down
	// then removes one node after the other. 0 drains nothing.
	Drain time.Duration `json:"-"`
	// LeaveCordoned has the job, an upgrade that fails half way, leave the node cordoned that was to be next.
	LeaveCordoned bool `json:"leaveCordoned,omitempty"`
	// Alert has the cluster in state Alert if the job, a scale or an upgrade, fails. The record keeps the size from before the job. Until
	// Portal.Repair, further scales and upgrades are refused.
	Alert bool `json:"alert,omitempty"`
	// UpgradeStyle is what the job, an upgrade, does to each node, instead of Options.UpgradeStyle.
	UpgradeStyle UpgradeStyle `json:"upgradeStyle,omitempty"`

	// RevokeToken ends the token that the call shows.
	RevokeToken bool `json:"revokeToken,omitempty"`
	// ClockSkew is added to the portal's clock for the call: tokens checked and issued by it, its headers.
	ClockSkew time.Duration `json:"-"`
	// OthersPerMinute is how many requests other users make on the accounts that Account selects, evenly, while the
	// fault exists. It affects no calls.
	OthersPerMinute int `json:"othersPerMinute,omitempty"`
}

// ScaleDirection is whether a scale request asks for more workers than there are, or for fewer.
type ScaleDirection string

// The directions.
const (
	ScaleUp   ScaleDirection = "up"
	ScaleDown ScaleDirection = "down"
)

// BodyFault is how an answer's body is spoiled.
type BodyFault string

// The ways to spoil a body.
const (
	BodyTruncated   BodyFault = "truncated"   // half of the JSON, as if it were all
	BodyInterrupted BodyFault = "interrupted" // half of the JSON, then the connection ends
	BodyHTML        BodyFault = "html"        // a page, as a proxy in between might send it
	BodyEmpty       BodyFault = "empty"       // nothing
	BodyNull        BodyFault = "null"        // {"data": null}
	BodySparse      BodyFault = "sparse"      // {"data": {…}}, with nothing that is documented
)

// JobFault is what goes wrong with a job.
type JobFault string

// The ways in which jobs go wrong.
const (
	JobStuck        JobFault = "stuck"          // running until the fault is removed, after which it goes on, or Portal.Repair, after which it has failed
	JobStuckLate    JobFault = "stuck-late"     // everything was done, and it is running until the fault is removed
	JobFails        JobFault = "failed"         // at its end, and nothing was done
	JobFailsHalfway JobFault = "failed-halfway" // at its end, and a scale or upgrade did JobNodes of its nodes. Other jobs fail late
	JobFailsLate    JobFault = "failed-late"    // at its end, and everything was done. A created cluster stays, as Failed
	JobForgotten    JobFault = "forgotten"      // it goes on, and GET /jobs says 404
	JobWithoutID    JobFault = "without-id"     // it succeeds with an empty result
)

// activeFault is a fault and what it did so far.
type activeFault struct {
	Fault
	calls int           // selected
	hits  int           // affected
	since time.Time     // of the first hit
	gone  chan struct{} // closed when the fault is removed
}

// FaultState is the present state of a fault.
type FaultState struct {
	Fault Fault `json:"fault"`
	Calls int   `json:"calls"` // that it selected
	Hits  int   `json:"hits"`  // that it affected
	Spent bool  `json:"spent"` // it affects no further calls, and holds no job
}

// Inject arms faults: all of them, or none if it refuses one. It refuses a fault that says nothing, says something that cannot be, or can never
// affect a call.
func (p *Portal) Inject(faults ...Fault) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	armed := slices.Clone(p.faults)
	for _, f := range faults {
		if f.ID == "" {
			p.nextFault++
			f.ID = fmt.Sprintf("fault-%d", p.nextFault)
		}
		if err := errors.Join(f.validate(), p.checkReach(&f)); err != nil {
			return fmt.Errorf("fault %s: %w", f.ID, err)
		}
		if slices.ContainsFunc(armed, func(a *activeFault) bool { return a.ID == f.ID }) {
			return fmt.Errorf("fault %s is there already", f.ID)
		}
		armed = append(armed, &activeFault{Fault: f, gone: make(chan struct{})})
	}
	p.settleOthers()
	for _, a := range armed[len(p.faults):] {
		p.record(LogEntry{Object: "fault", ID: a.ID, To: "injected"})
	}
	p.faults = armed
	return nil
}

// ClearFaults removes all faults. Jobs that were stuck go on.
func (p *Portal) ClearFaults() { p.removeFaults(func(*activeFault) bool { return true }) }

// RemoveFault removes one fault and reports whether it existed.
func (p *Portal) RemoveFault(id string) bool {
	return p.removeFaults(func(a *activeFault) bool { return a.ID == id }) > 0
}

func (p *Portal) removeFaults(which func(*activeFault) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleOthers()
	before := len(p.faults)
	p.faults = slices.DeleteFunc(slices.Clone(p.faults), func(a *activeFault) bool {
		if !which(a) {
			return false
		}
		close(a.gone)
		p.record(LogEntry{Object: "fault", ID: a.ID, To: "removed"})
		return true
	})
	return before - len(p.faults)
}

// Faults returns the faults there are, oldest first.
func (p *Portal) Faults() []FaultState {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]FaultState, 0, len(p.faults))
	for _, a := range p.faults {
		out = append(out, FaultState{Fault: a.Fault, Calls: a.calls, Hits: a.hits, Spent: a.spent() && a.Job != JobStuck && a.Job != JobStuckLate})
	}
	return out
}

var templateParameter = regexp.MustCompile(`\{[^/]*\}`)

// pattern is the path as path.Match reads it.
func (f *Fault) pattern() string { return templateParameter.ReplaceAllString(f.Path, "*") }

// selects reports whether a call is one of the fault's. Callers hold mu.
func (f *Fault) selects(c *call) bool {
	if f.Method != "" && f.Method != c.request.Method || f.Account != "" && f.Account != c.account {
		return false
	}
	if f.Scale != "" && f.Scale != c.scaleDirection() {
		return false
	}
	if f.State != "" && f.State != c.clusterState() {
		return false
	}
	match, _ := path.Match(f.pattern(), c.localPath()) // validated
	return f.Path == "" || match
}

// matchFaults finds the faults that affect a call.
func (p *Portal) matchFaults(c *call) matchedFaults {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s matchedFaults
	for _, a := range p.faults {
		if !a.affectsCalls() || !a.selects(c) {
			continue
		}
		a.calls++
		if a.calls < a.Nth || a.spent() {
			continue
		}
		if a.Probability > 0 && p.faultRand.Float64() >= a.Probability {
			continue
		}
		a.hits++
		if a.since.IsZero() {
			a.since = time.Now()
		}
		s = append(s, a)
	}
	return s
}

// spent reports whether the fault has affected calls as often, or for as long, as it was to.
func (a *activeFault) spent() bool {
	return a.Count > 0 && a.hits >= a.Count || a.For > 0 && a.hits > 0 && time.Since(a.since) >= a.For
}

// refusal returns the fault's answer in place of the portal's, or nil.
func (f *Fault) refusal() *refusal {
	if f.Status == 0 && f.Code == "" {
		return nil
	}
	r := &refusal{status: f.Status, code: f.Code, field: f.Field, message: f.Message}
	if r.code == "" {
		r.code = defaultCode(f.Status)
	}
	if r.message == "" {
		r.message = http.StatusText(defaultStatus(r.code))
	}
	return r
}

// othersPerMinute is how much of an account's budget others use now. Callers hold mu.
func (p *Portal) othersPerMinute(account string) int {
	sum := 0
	for _, a := range p.faults {
		if a.Account == "" || a.Account == account {
			sum += a.OthersPerMinute
		}
	}
	return sum
}

// settleOthers accounts for the use by others up to now, before it changes. Callers hold mu.
func (p *Portal) settleOthers() {
	for account, l := range p.limits {
		l.useByOthers(time.Now(), p.othersPerMinute(account))
	}
}
