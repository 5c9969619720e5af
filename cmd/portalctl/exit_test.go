// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestExitCodes: every documented error, and every other failure, has an exit code.
func TestExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		fault emulator.Fault
		code  exitCode
		says  string
	}{
		"invalid":       {emulator.Fault{Code: "INVALID_PARAMETER", Field: "name"}, exitRefused, "name"},
		"mfa":           {emulator.Fault{Code: "MFA_REQUIRED"}, exitCredentials, "What to do"},
		"token":         {emulator.Fault{Code: "INVALID_TOKEN"}, exitCredentials, "What to do"},
		"not found":     {emulator.Fault{Code: "RESOURCE_NOT_FOUND"}, exitNotFound, "another account"},
		"busy":          {emulator.Fault{Code: "RESOURCE_BUSY"}, exitLater, "job has ended"},
		"quota":         {emulator.Fault{Code: "QUOTA_EXCEEDED"}, exitLater, "quota"},
		"capacity":      {emulator.Fault{Code: "INSUFFICIENT_CAPACITY"}, exitLater, "zone"},
		"not allowed":   {emulator.Fault{Code: "OPERATION_NOT_ALLOWED"}, exitRefused, "state"},
		"rate limited":  {emulator.Fault{Code: "RATE_LIMITED", RetryAfter: time.Second}, exitLater, "Not before: 2000"},
		"forbidden":     {emulator.Fault{Status: 403}, exitRefused, "role"},
		"business rule": {emulator.Fault{Status: 422, Code: "SOMETHING_NEW"}, exitRefused, "SOMETHING_NEW"},
		"server error":  {emulator.Fault{Status: 500}, exitUnreachable, "support"},
		"maintenance":   {emulator.Fault{Status: 503}, exitUnreachable, "Request id, for the portal's support: req-"},
		"connection":    {emulator.Fault{Cut: true}, exitUnreachable, "compare --url"},
		"page":          {emulator.Fault{Body: emulator.BodyHTML}, exitUnreachable, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
				test.fault.Path = "/vpcs"
				d.inject(test.fault)
				d.run("vpcs", "list", "-v").exits(test.code).says(test.says, "Error: GET /vpcs")
			})
		})
	}
}

// TestRateLimitIsWaitedFor: the command waits after one refusal for the rate limit, and does not fail.
func TestRateLimitIsWaitedFor(t *testing.T) {
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/vpcs", Code: "RATE_LIMITED", RetryAfter: 9 * time.Second, Count: 1})
		d.run("vpcs", "list", "-v").exits(exitOK).says("429 RATE_LIMITED", "after waiting")
	})
}

// TestPollIntervalIsNoRateLimit: the 5 seconds between two polls of a job are not reported as a wait for the rate limit.
func TestPollIntervalIsNoRateLimit(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.run(d.createArgs("demo")...).exits(exitOK).says("GET /jobs/{job_id} → 200 (0s)").saysNot("after waiting")
		if polls := d.calls("GET", "/jobs/{job_id}"); polls < 2 {
			t.Errorf("%d polls, want some after a wait", polls)
		}
	})
}

// TestNotBefore: only a time that the portal has named is shown, and not when the client would have tried again.
func TestNotBefore(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		wait time.Duration
		says string
	}{
		"a lookup":                {"/vpcs", 0, ""},
		"the login":               {"/login", 0, ""},
		"the login, until a time": {"/login", 90 * time.Second, "Not before: 2000-01-01T00:01:30Z"},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{}, func(t *testing.T, d *desk) {
				d.inject(emulator.Fault{Path: test.path, Status: 503, RetryAfter: test.wait})
				r := d.run("vpcs", "list").exits(exitUnreachable).says(test.says)
				if strings.Contains(r.err, "Not before") != (test.says != "") {
					t.Error(r.err)
				}
			})
		})
	}
}

func TestRoles(t *testing.T) {
	users := []emulator.User{{Email: "u@portal.example", Password: canaryPassword, Role: emulator.RoleUser}}
	at(t, emulator.Options{Users: users}, func(_ *testing.T, d *desk) {
		d.run("mfa", "disable", "portal", "--yes").exits(exitRefused).says("role")
	})
	at(t, mfaUser(), func(_ *testing.T, d *desk) {
		d.run("mfa", "disable", "portal", "--yes").exits(exitCredentials)
	})
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.run("mfa", "disable", "portal", "--yes").exits(exitOK).says("disabled")
		if d.calls("POST", "/admin/mfa/disable/{idp}") != 1 {
			t.Error("the portal was not asked")
		}
	})
}

// TestHelp: help for a command that does not exist is a mistake on the command line.
func TestHelp(t *testing.T) {
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		for _, args := range [][]string{{"help"}, {"help", "clusters"}, {"help", "clusters", "scale"}, {"help", "completion"}, {"--help"}} {
			d.run(args...).exits(exitOK).shows("Usage:")
		}
		for _, args := range [][]string{{"help", "nope"}, {"help", "clusters", "nope"}, {"nope"}, {"clusters", "nope"}} {
			d.run(args...).exits(exitUsage).says("nope")
		}
		d.run("--help").exits(exitOK).shows("130  interrupted", "PORTAL_TOTP_SEED")
		d.run("completion", "bash").exits(exitOK).shows("portalctl")
		d.run("version", "-o", "json").exits(exitOK).shows(`"version"`, "linux")
	})
}
