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

// strike holds the effects of all faults on one call, and on the job that it starts.
type strike []*armed

// names of the faults, for the request log.
func (s strike) names() string {
	ids := make([]string, 0, len(s))
	for _, a := range s {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, ",")
}

// any reports whether one of the faults is such.
func (s strike) any(such func(*armed) bool) *armed {
	for _, a := range s {
		if such(a) {
			return a
		}
	}
	return nil
}

// strikeBefore does what faults do before the work: wait, revoke, and perhaps answer in its stead.
func (c *call) strikeBefore() (answer, bool) {
	for _, a := range c.strike {
		c.skew += a.ClockSkew
	}
	return c.strikeAt(false)
}

// strikeAt does what the faults of one moment do. deliver does what has to wait until the request is logged.
func (c *call) strikeAt(after bool) (answer, bool) {
	for _, a := range c.strike {
		if a.After != after {
			continue
		}
		if !after {
			_ = sleep(c.portal.ctx, a.Delay) // ends early when the portal closes
		}
		if a.RevokeToken && c.session != nil {
			c.portal.revoke(c, c.session)
		}
		if a.Cut {
			return answer{cut: true}, true
		}
		if r := a.refusal(); r != nil {
			refused := r.answer(&c.portal.opts.Shapes, c.id)
			refused.retryIn = a.RetryAfter
			return refused, true
		}
	}
	return answer{}, false
}

// strikeAfter replaces the answer where faults say so.
func (c *call) strikeAfter(a answer) answer {
	if struck, yes := c.strikeAt(true); yes {
		return struck
	}
	return a
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
	for _, f := range c.strike {
		if f.After {
			_ = sleep(c.portal.ctx, f.Delay)
		}
	}
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	spoiled := c.strike.any(func(f *armed) bool { return f.Body != "" })
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
	}
}

// holdJob keeps a stuck job until its fault is removed or the portal closes.
func (s strike) holdJob(ctx context.Context) error {
	stuck := s.any(func(a *armed) bool { return a.Job == JobStuck })
	if stuck == nil {
		return nil
	}
	select {
	case <-stuck.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s strike) jobDelay() time.Duration {
	var sum time.Duration
	for _, a := range s {
		sum += a.JobDelay
	}
	return sum
}

func (s strike) failEarly() error { return s.failure(JobFails) }

// failLate is the error of a job that did its work, or the share of it that it was to do.
func (s strike) failLate() error {
	if err := s.failure(JobFailsHalfway); err != nil {
		return err
	}
	return s.failure(JobFailsLate)
}

// share returns how many of the nodes the job processes: all, unless it fails half way.
func (s strike) share(nodes int) int {
	failing := s.any(func(a *armed) bool { return a.Job == JobFailsHalfway })
	switch {
	case failing == nil:
		return nodes
	case failing.JobNodes == 0:
		return nodes / 2
	}
	return min(failing.JobNodes, nodes)
}

// upgradeStyle returns how the upgrade treats each node.
func (s strike) upgradeStyle(otherwise UpgradeStyle) UpgradeStyle {
	if other := s.any(func(a *armed) bool { return a.UpgradeStyle != "" }); other != nil {
		return other.UpgradeStyle
	}
	return otherwise
}

// failure is the error of a job that faults let fail in the given way.
func (s strike) failure(how JobFault) error {
	failing := s.any(func(a *armed) bool { return a.Job == how })
	if failing == nil {
		return nil
	}
	e := &jobError{Code: failing.JobCode, Message: failing.JobMessage}
	orElse(&e.Code, CodeInternalError)
	orElse(&e.Message, "the operation failed")
	return e
}

func (s strike) forgets() bool {
	return s.any(func(a *armed) bool { return a.Job == JobForgotten }) != nil
}

func (s strike) dropsID() bool {
	return s.any(func(a *armed) bool { return a.Job == JobWithoutID }) != nil
}

func (s strike) leavesNodes() bool {
	return s.any(func(a *armed) bool { return a.LeaveNodes }) != nil
}
