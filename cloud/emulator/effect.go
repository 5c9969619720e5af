// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// matchedFaults holds the effects of all faults on one call, and on the job that it starts.
type matchedFaults []*activeFault

// names of the faults, for the request log.
func (s matchedFaults) names() string {
	ids := make([]string, 0, len(s))
	for _, a := range s {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, ",")
}

// find reports whether one of the faults is such.
func (s matchedFaults) find(such func(*activeFault) bool) *activeFault {
	for _, a := range s {
		if such(a) {
			return a
		}
	}
	return nil
}

// applyFaultsBefore does what faults do before the work: wait, revoke, and perhaps answer in its stead.
func (c *call) applyFaultsBefore() (answer, bool) {
	for _, a := range c.faults {
		c.skew += a.ClockSkew
	}
	return c.applyFaults(false)
}

// applyFaults does what the faults of one moment do. deliver does what has to wait until the request is logged.
func (c *call) applyFaults(after bool) (answer, bool) {
	for _, a := range c.faults {
		if a.After != after {
			continue
		}
		if !after {
			_ = sleep(c.portal.ctx, c.portal.drawDelay(a)) // ends early when the portal closes
		}
		if a.RevokeToken && c.session != nil {
			c.portal.revoke(c, c.session)
		}
		if a.Cut {
			return answer{cut: true}, true
		}
		if a.Status == http.StatusOK {
			return answer{status: a.Status}, true
		}
		if r := a.refusal(); r != nil {
			refused := r.answer(&c.portal.opts.Shapes, c.id)
			refused.retryIn = a.RetryAfter
			return refused, true
		}
	}
	return answer{}, false
}

// applyFaultsAfter replaces the answer where faults say so.
func (c *call) applyFaultsAfter(a answer) answer {
	if faulty, yes := c.applyFaults(true); yes {
		return faulty
	}
	return a
}

// drawDelay returns how long the fault delays this answer.
func (p *Portal) drawDelay(a *activeFault) time.Duration {
	if a.DelayUpTo == 0 {
		return a.Delay
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return a.Delay + time.Duration(p.faultRand.Int64N(int64(a.DelayUpTo-a.Delay)+1))
}

func (p *Portal) revoke(c *call, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.revoked = true
	c.note(LogEntry{Object: "token", ID: s.id, Account: s.user.Account, To: "revoked"})
}

const htmlPage = "<!DOCTYPE html>\n<html><head><title>Portal</title></head><body><h1>The portal is being maintained</h1></body></html>\n"

// deliver sends the answer, late, spoiled or not at all if faults say so.
func (c *call) deliver(w http.ResponseWriter, a answer) {
	_ = sleep(c.portal.ctx, a.late)
	for _, f := range c.faults {
		if f.After {
			_ = sleep(c.portal.ctx, c.portal.drawDelay(f))
		}
	}
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	spoiled := c.faults.find(func(f *activeFault) bool { return f.Body != "" })
	if spoiled == nil {
		c.write(w, a)
		return
	}
	payload, err := json.Marshal(a.body)
	if err != nil {
		panic(fmt.Sprintf("answer of %s %s: %v", c.request.Method, c.shownPath(), err))
	}
	switch spoiled.Body {
	case BodyTruncated:
		c.writeBytes(w, a, payload[:len(payload)/2], "application/json")
	case BodyInterrupted:
		c.writeHead(w, a, len(payload), "application/json")
		_, _ = w.Write(payload[:len(payload)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case BodyHTML:
		c.writeBytes(w, a, []byte(htmlPage), "text/html; charset=utf-8")
	case BodyEmpty:
		c.writeBytes(w, a, nil, "application/json")
	case BodyNull:
		c.writeBytes(w, a, []byte(`{"data":null}`), "application/json")
	case BodySparse:
		c.writeBytes(w, a, []byte(`{"data":{"state":"accepted"}}`), "application/json")
	}
}

func (s matchedFaults) stuck(how JobFault) *activeFault {
	return s.find(func(a *activeFault) bool { return a.Job == how })
}

// holdJob keeps a job that is stuck in the given way until its fault is removed, the portal's operator ends the job, or the portal closes.
func (s matchedFaults) holdJob(ctx context.Context, how JobFault, repaired <-chan struct{}) error {
	stuck := s.stuck(how)
	if stuck == nil {
		return nil
	}
	select {
	case <-stuck.gone:
		return nil
	case <-repaired:
		return &jobError{Code: CodeInternalError, Message: "the portal's operator ended the operation"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s matchedFaults) jobDelay() time.Duration {
	var sum time.Duration
	for _, a := range s {
		sum += a.JobDelay
	}
	return sum
}

func (s matchedFaults) failEarly() error { return s.failure(JobFails) }

// failLate is the error of a job that did its work, or the share of it that it was to do.
func (s matchedFaults) failLate() error {
	if err := s.failure(JobFailsHalfway); err != nil {
		return err
	}
	return s.failure(JobFailsLate)
}

// nodesDone returns how many of the nodes the job processes: all, unless it fails half way.
func (s matchedFaults) nodesDone(nodes int) int {
	failing := s.find(func(a *activeFault) bool { return a.Job == JobFailsHalfway })
	switch {
	case failing == nil:
		return nodes
	case failing.JobNodes == 0:
		return nodes / 2
	}
	return min(failing.JobNodes, nodes)
}

// upgradeStyle returns how the upgrade treats each node.
func (s matchedFaults) upgradeStyle(otherwise UpgradeStyle) UpgradeStyle {
	if other := s.find(func(a *activeFault) bool { return a.UpgradeStyle != "" }); other != nil {
		return other.UpgradeStyle
	}
	return otherwise
}

// failure is the error of a job that faults let fail in the given way.
func (s matchedFaults) failure(how JobFault) error {
	failing := s.find(func(a *activeFault) bool { return a.Job == how })
	if failing == nil {
		return nil
	}
	e := &jobError{Code: failing.JobCode, Message: failing.JobMessage}
	orElse(&e.Code, CodeInternalError)
	orElse(&e.Message, "the operation failed")
	return e
}

func (s matchedFaults) forgets() bool {
	return s.find(func(a *activeFault) bool { return a.Job == JobForgotten }) != nil
}

func (s matchedFaults) dropsID() bool {
	return s.find(func(a *activeFault) bool { return a.Job == JobWithoutID }) != nil
}

func (s matchedFaults) leavesNodes() bool {
	return s.find(func(a *activeFault) bool { return a.LeaveNodes }) != nil
}

// drainTime is how long a job drains a node at most. 0 means that it drains none.
func (p *Portal) drainTime(s matchedFaults) time.Duration {
	if drains := s.find(func(a *activeFault) bool { return a.Drain > 0 }); drains != nil {
		return drains.Drain
	}
	return p.opts.Traits.DrainTime
}

func (s matchedFaults) leavesCordoned() bool {
	return s.find(func(a *activeFault) bool { return a.LeaveCordoned }) != nil
}

func (s matchedFaults) alerts() bool {
	return s.find(func(a *activeFault) bool { return a.Alert }) != nil
}
