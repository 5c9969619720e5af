// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds what the portal reads of a request, in bytes.
const maxBody = 1 << 20

// call is one request on its way through the portal.
type call struct {
	portal  *Portal
	request *http.Request
	id      string // requestId
	arrived time.Time
	skew    time.Duration // of the portal's clock for this call
	route   *route        // nil: there is no such endpoint
	params  map[string]string
	body    []byte
	account string // whose budget it uses, or "" for an unknown caller
	session *session
	faults  matchedFaults // faults that hit it
	notes   []LogEntry    // state changes it made, logged after the request
	starts  []func()      // started once the request is logged
}

// answer is the answer to a call.
type answer struct {
	status    int
	body      any // JSON
	header    http.Header
	code      string        // of an error
	violation string        // how the request broke the specification
	page      bool          // it is sent as HTML instead
	cut       bool          // the connection ends instead
	retryIn   time.Duration // what a fault says of Retry-After
	late      time.Duration // how long the portal works before it answers
	allow     string        // of the header Allow, which goes with 405 (RFC 9110, 15.5.6)
}

// now is the portal's clock as this call sees it.
func (c *call) now() time.Time { return c.portal.now().Add(c.skew) }

// note logs a state change that this call makes, once the request itself is logged.
func (c *call) note(e LogEntry) {
	e.Time = time.Now()
	c.notes = append(c.notes, e)
}

// ServeHTTP serves one request of the portal's API.
func (p *Portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := p.newCall(r)
	if !p.startWork() {
		c.write(w, refuse(CodeUnavailable, "the portal is closed").answer(&p.opts.Shapes, c.id))
		return
	}
	defer p.wg.Done()
	a := c.decide()
	c.logRequest(a)
	c.deliver(w, a)
}

func (p *Portal) newCall(r *http.Request) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	return &call{portal: p, request: r, arrived: time.Now(), id: fmt.Sprintf("req-%06d", p.requests)}
}

// decide works out the answer: endpoint, caller, budget, faults, and then the work itself.
func (c *call) decide() answer {
	p := c.portal
	var unknown *refusal
	c.route, c.params, unknown = p.find(c.request.Method, c.request.URL.Path)
	problem := first(c.checkTransport, c.readBody)
	c.identify()

	limits, limited := p.spend(c)
	if limited == nil {
		c.faults = p.matchFaults(c)
	}
	a, answered := c.applyFaultsBefore()
	if !answered {
		a = c.work(limited, unknown, problem)
	}
	a = c.applyFaultsAfter(a)
	a.header = c.limitHeaders(a, limits)
	if a.allow != "" {
		a.header.Set("Allow", a.allow)
	}
	return a
}

// work runs the endpoint's handler, unless the call was refused before.
func (c *call) work(problems ...*refusal) answer {
	var refused *refusal
	for _, problem := range problems {
		if refused == nil {
			refused = problem
		}
	}
	if refused == nil {
		refused = first(c.authenticate, c.checkQuery)
	}
	var a answer
	if refused == nil {
		a, refused = c.route.serve(c)
		if refused != nil {
			a, refused = c.refuseByJob(refused)
		}
	}
	if refused != nil {
		return refused.answer(&c.portal.opts.Shapes, c.id)
	}
	return a
}

// checkTransport refuses plain HTTP (specification, Authentication 9).
func (c *call) checkTransport() *refusal {
	if c.request.TLS == nil {
		return &refusal{code: CodeOperationNotAllowed, status: http.StatusBadRequest, violation: true,
			message: "only HTTPS is accepted"}
	}
	return nil
}

// readBody reads the body of endpoints that take one, and refuses one elsewhere.
func (c *call) readBody() *refusal {
	body, err := io.ReadAll(io.LimitReader(c.request.Body, maxBody+1))
	switch {
	case err != nil:
		return specViolation("", "the body cannot be read")
	case len(body) > maxBody:
		return specViolation("", "the body is larger than %d bytes", maxBody)
	case c.route == nil:
		return nil
	case !c.route.body && len(body) > 0:
		return specViolation("", "the endpoint takes no body")
	}
	c.body = body
	return nil
}

// checkQuery refuses a query that cannot be read, and parameters that the endpoint does not know. A filter that were left out would have the
// portal list everything.
func (c *call) checkQuery() *refusal {
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return specViolation("", "the query cannot be read")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(c.route.query, name):
			return specViolation(name, "the endpoint does not know query parameter %q", name)
		case len(values) > 1:
			return specViolation(name, "query parameter %q is given %d times", name, len(values))
		}
	}
	return nil
}

// logRequest records the request, then the changes that it made, and then starts its jobs.
func (c *call) logRequest(a answer) {
	e := LogEntry{
		Time: c.arrived, RequestID: c.id, Account: c.account, Method: c.request.Method,
		Path: c.shownPath(), Status: a.status, Code: a.code, Violation: a.violation, Fault: c.faults.names(),
	}
	if c.route != nil {
		e.Route = c.route.pattern
	}
	if c.session != nil {
		e.User = c.session.user.ID
	}
	c.portal.record(append([]LogEntry{e}, c.notes...)...)
	for _, start := range c.starts {
		start()
	}
}

// localPath is the path below the base path.
func (c *call) localPath() string {
	return strings.TrimPrefix(c.request.URL.Path, c.portal.opts.BasePath)
}

// shownPath is the path without the one secret that the specification puts into a path.
func (c *call) shownPath() string {
	const secretBelow = "/reset-password/"
	if before, _, secret := strings.Cut(c.request.URL.Path, secretBelow); secret {
		return before + secretBelow + "…"
	}
	return c.request.URL.Path
}

// write sends an answer as it is.
func (c *call) write(w http.ResponseWriter, a answer) {
	if a.page {
		c.writeBytes(w, a, []byte(htmlPage), "text/html; charset=utf-8")
		return
	}
	if a.status == http.StatusNoContent {
		c.writeBytes(w, a, nil, "application/json")
		return
	}
	payload, err := c.encode(a)
	if err != nil {
		panic(fmt.Sprintf("answer of %s %s: %v", c.request.Method, c.shownPath(), err))
	}
	c.writeBytes(w, a, payload, "application/json")
}

func (c *call) writeBytes(w http.ResponseWriter, a answer, payload []byte, contentType string) {
	c.writeHead(w, a, len(payload), contentType)
	_, _ = w.Write(payload) // the caller may have gone
}

func (c *call) writeHead(w http.ResponseWriter, a answer, length int, contentType string) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.Header().Set("Date", c.now().UTC().Format(http.TimeFormat))
	w.WriteHeader(a.status)
}

func first(checks ...func() *refusal) *refusal {
	for _, check := range checks {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}
