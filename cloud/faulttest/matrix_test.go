// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestMatrix checks every cell: each method under each fault returns the class in the tables, no method repeats a request that may have
// been carried out, and the client does not violate the specification.
func TestMatrix(t *testing.T) {
	all := allRows(t)
	cells := 0
	for _, m := range methods {
		for _, r := range all {
			cells += len(r.faults)
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range all {
				t.Run(r.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						for _, f := range r.faults {
							m.cell(t, r, f)
						}
					})
				})
			}
		})
	}
	t.Logf("%d methods × %d rows: %d cells", len(methods), len(all), cells)
}

// cell checks one method under one fault.
func (m method) cell(t *testing.T, r row, f emulator.Fault) {
	s := newScene(t, m.path, emulator.Options{Durations: quick, ListClusters: true}, m.user)
	what := fmt.Sprintf("%s: %s, status %d", m.name, r.name, f.Status)
	if !m.entering() {
		if _, err := s.client.UserID(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	before := len(s.portal.RequestLog())
	if f.OthersPerMinute == 0 {
		f.Method, f.Path = m.verb, m.path
	}
	if err := s.portal.Inject(f); err != nil {
		if f.Job != "" && m.group != "change" {
			return // the endpoint starts no job
		}
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	err := m.call(t.Context(), s)
	if got := class(err); len(got) != 1 || got[0] != m.want(r, f) {
		t.Errorf("%s: %v, want %s: %v", what, got, m.want(r, f), err)
	}
	m.checkError(t, what, err)
	if found := s.tap.leaked(fmt.Sprintf("%v %+v %#v %v", err, err, err, s.portal.RequestLog())); len(found) > 0 {
		t.Errorf("%s: error or request log has %v", what, found)
	}
	s.portal.ClearFaults()
	time.Sleep(2 * time.Minute) // until the client has sent everything
	m.checkRequestLog(t, what, s.portal.RequestLog()[before:])
	if broken := s.portal.Violations(); len(broken) > 0 {
		t.Errorf("%s: %v", what, broken)
	}
}

// want returns the table's class, with an exception for endpoints that a portal does not need to have.
func (m method) want(r row, f emulator.Fault) string {
	want := r.want[m.group]
	if m.absent != "" && want != "ok" && want != "rate-limited" && answered(f) {
		return m.absent
	}
	if m.waits && want == "rate-limited" && (f.Code == emulator.CodeInvalidToken || f.Code == emulator.CodeMFARequired) {
		return "unauthorized" // of the second try, with a new token
	}
	if m.ahead != "" && f.ClockSkew > 0 {
		return m.ahead // the link has expired for any token
	}
	return want
}

// answered reports whether a call gets an answer under the fault.
func answered(f emulator.Fault) bool {
	return f.Status != 0 || f.Body != "" && f.Body != emulator.BodyInterrupted || f.RevokeToken || f.ClockSkew > 0
}

// checkError checks that an error names its endpoint, and that a rate-limit error has a RetryAt.
func (m method) checkError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *cloud.Error
	if !errors.As(err, &e) || e.Endpoint == "" {
		t.Errorf("%s: %#v names no endpoint", what, err)
	}
	if at, ok := cloud.RetryAt(err); cloud.IsRateLimited(err) && (!ok || !at.After(time.Now())) {
		t.Errorf("%s: RetryAt %v", what, at)
	}
}

// checkRequestLog checks that the portal received a request that changes something only once, apart from requests that it
// refused because of the token, or of the limit for which the client waits, and so did not carry out. Reads may be repeated.
func (m method) checkRequestLog(t *testing.T, what string, entries []emulator.LogEntry) {
	t.Helper()
	sent, made := 0, 0
	for _, e := range entries {
		limited := e.Status == http.StatusTooManyRequests || e.Code == emulator.CodeRateLimited
		if e.Method == m.verb && m.verb != http.MethodGet && e.Route == routed(m.path) && !forToken(e) && !(m.waits && limited) {
			sent++
		}
		if e.Object == "cluster" && e.To == string(emulator.ClusterCreating) {
			made++
		}
	}
	if sent > 1 || made > 1 {
		t.Errorf("%s: sent %d times, %d clusters were made", what, sent, made)
	}
}

// forToken reports whether the client may log in and send the refused request once more.
func forToken(e emulator.LogEntry) bool {
	return e.Status == http.StatusUnauthorized || e.Code == emulator.CodeInvalidToken || e.Code == emulator.CodeMFARequired
}

// routed returns the route of a path, as in the emulator's endpoint table.
func routed(path string) string {
	if path == "/reset-password/{RESET_PASSWORD_TOKEN}" {
		return "/reset-password/{token}"
	}
	return path
}
