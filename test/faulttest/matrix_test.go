// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestMatrix checks the class of each method under each fault, that no change is repeated, and that the client follows the specification.
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

// Credentials of the portal's users.
const (
	password = "Correct-Horse-7"
	seed     = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	email    = "robot@portal.example"
	mfaEmail = "careful@portal.example"
)

// scene is a portal with resources to read and to change, in virtual time.
type scene struct {
	*testing.T
	portal *emulator.Portal
	client *cloud.Client // has not sent a request yet
	tap    *tap          // records the secrets of all requests and answers

	cluster, job, instance, volume, version, reset string
}

// quick is for operations that take no time.
var quick = emulator.Durations{Pending: -1, Create: -1, Scale: -1, Upgrade: -1, Delete: -1, VPC: -1, Network: -1}

func newPortal(t *testing.T, options emulator.Options) *emulator.Portal {
	t.Helper()
	options.Users = []emulator.User{
		{Email: email, Password: password},
		{Email: mfaEmail, Password: password, TOTPSeed: seed},
	}
	p, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newClient(t *testing.T, p *emulator.Portal, changes ...func(*cloud.Config)) *cloud.Client {
	t.Helper()
	config := cloud.Config{BaseURL: p.URL(), Email: email, Password: password, Transport: p.Transport()}
	for _, change := range changes {
		change(&config)
	}
	c, err := cloud.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// careful configures the user with MFA.
func careful(c *cloud.Config) { c.Email, c.TOTPSeed = mfaEmail, seed }

// newScene creates the resources that a method with that path reads or changes. Its client has not sent a request yet.
func newScene(t *testing.T, path string, options emulator.Options, changes ...func(*cloud.Config)) *scene {
	t.Helper()
	p := newPortal(t, options)
	s := &scene{T: t, portal: p, tap: newTap(p.Transport()), version: p.Versions()[0].ID}
	s.client = newClient(t, p, append(changes, func(c *cloud.Config) { c.Transport = s.tap })...)
	other := newClient(t, p)
	if _, err := other.VPCs(t.Context(), ""); err != nil { // the account is already in use
		t.Fatal(err)
	}
	s.volume = p.AddVolume(emulator.Volume{})
	switch {
	case strings.Contains(path, "{RESET_PASSWORD_TOKEN}"):
		if err := other.RequestPasswordReset(t.Context(), email); err != nil {
			t.Fatal(err)
		}
		s.reset = p.Mailbox(email)[0].ResetToken
	case strings.Contains(path, "{cluster_id}"), strings.Contains(path, "{job_id}"), strings.Contains(path, "{instance_id}"):
		s.furnish(other)
	}
	return s
}

// furnish creates a cluster.
func (s *scene) furnish(c *cloud.Client) {
	s.Helper()
	job, err := c.CreateCluster(s.Context(), s.request())
	if err != nil {
		s.Fatal(err)
	}
	s.job = job.ID
	for !job.Done() {
		time.Sleep(time.Second)
		if job, err = c.Job(s.Context(), s.job); err != nil || job.Failed() {
			s.Fatalf("%+v, %v", job, err)
		}
	}
	s.cluster, _ = job.CreatedID("", "")
	s.instance = s.portal.Instances()[0].ID
}

// request returns a create request for a small cluster.
func (s *scene) request() cloud.CreateClusterRequest {
	return cloud.CreateClusterRequest{
		Name: "demo", Description: "of the matrix", ZoneID: "zone-1", KubernetesVersionID: s.version, ServiceOfferingID: "offering-1",
		Size: 1, ControlNodes: 1, VPCID: s.portal.VPCs()[0].ID, SSHKeyPair: "key",
	}
}
