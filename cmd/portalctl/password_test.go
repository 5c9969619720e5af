// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const mailbox = "ops@portal.example"

// TestPasswordReset: asked for without a password, completed by a person, then by a pipe.
func TestPasswordReset(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		none := d.with(passwordVariable, "")
		none.run("password", "reset", "-v").exits(exitOK).says("reset link is on its way")
		token := d.portal.Mailbox(mailbox)[0].ResetToken
		none.answers = []string{token, "canary-new", "canary-typo"}
		none.run("password", "complete").exits(exitUsage).says("differ")
		none.answers = []string{token, "canary-new", "canary-new"}
		if r := none.run("password", "complete", "-v").exits(exitOK); strings.Contains(r.out+r.err, token) {
			t.Errorf("the reset token is shown: %s%s", r.out, r.err)
		}
		d.run("login").exits(exitCredentials)
		d.with(passwordVariable, "canary-new").run("login").exits(exitOK)
		none.answers = []string{token, "canary-newer", "canary-newer"}
		if r := none.run("password", "complete").exits(exitNotFound); strings.Contains(r.out+r.err, token) {
			t.Errorf("the reset token is shown: %s%s", r.out, r.err)
		}

		none.answers = nil
		none.run("password", "reset").exits(exitOK)
		none.stdin = d.portal.Mailbox(mailbox)[1].ResetToken + "\ncanary-newest\n"
		none.run("password", "complete", "--password-stdin").exits(exitOK)
		d.with(passwordVariable, "canary-newest").run("login").exits(exitOK)
		if n := d.calls("POST", "/login"); n != 3 {
			t.Errorf("%d logins, want 3: a reset needs none", n)
		}
	})
}

func TestPasswordCompleteNeedsInput(t *testing.T) {
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.run("password", "complete").exits(exitUsage).says("--password-stdin")
		d.stdin = "token-only\n"
		d.run("password", "complete", "--password-stdin").exits(exitUsage).says("New password")
	})
}
