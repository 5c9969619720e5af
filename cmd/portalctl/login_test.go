// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func mfaUser() emulator.Options {
	return emulator.Options{Users: []emulator.User{{
		ID: "user-7", Email: "ops@portal.example", Password: canaryPassword, Role: emulator.RoleUser, TOTPSeed: canarySeed,
	}}}
}

func TestLoginTellsUserRoleAndToken(t *testing.T) {
	at(t, emulator.Options{TokenLifetime: 2 * time.Hour}, func(t *testing.T, d *desk) {
		d.run("login").exits(exitOK).shows("ops@portal.example", "Administrator", "off", "accepted, valid for 2h0m0s, until 2000-01-01T02:00:00Z")
		value := decode[struct {
			User         struct{ ID, Email, Role string }
			MFARequired  *bool
			TokenExpires time.Time
		}](d.run("login", "-o", "json", "-v").exits(exitOK).says("POST /login → 200"))
		if value.User.ID == "" || value.User.Role != "Administrator" || value.MFARequired == nil || *value.MFARequired ||
			!value.TokenExpires.Equal(time.Now().Add(2*time.Hour)) {
			t.Errorf("login: %+v", value)
		}
	})
	at(t, emulator.Options{Shapes: emulator.Shapes{TokensWithoutExp: true}}, func(_ *testing.T, d *desk) {
		d.run("login").exits(exitOK).shows("not reported, 8h")
	})
}

// TestSecondFactor: the code is made from the seed, or typed. Without a terminal it is not asked for.
func TestSecondFactor(t *testing.T) {
	at(t, mfaUser(), func(_ *testing.T, d *desk) {
		d.with(seedVariable, canarySeed).run("login", "-v").exits(exitOK).
			shows("user-7", "User", "on, the code was made from").says("POST /mfa/verify-otp → 200")
	})
	at(t, mfaUser(), func(t *testing.T, d *desk) {
		code, err := totp.GenerateCode(canarySeed, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		d.answers = []string{code + " "}
		r := d.run("login").exits(exitOK).shows("on, the provider needs the seed")
		if len(d.asked) != 1 || !strings.Contains(d.asked[0], "One-time code for ops@portal.example") {
			t.Errorf("asked %q", d.asked)
		}
		if strings.Contains(r.out+r.err, code) {
			t.Errorf("the code is shown: %s%s", r.out, r.err)
		}
	})
	at(t, mfaUser(), func(t *testing.T, d *desk) {
		d.run("login").exits(exitCredentials).says("MFA", seedVariable)
		d.answers = []string{"000000"}
		d.run("login").exits(exitCredentials).says("one-time code", "wait for the next one")
		if n := d.calls("POST", "/mfa/verify-otp"); n != 1 {
			t.Errorf("%d codes were tried", n)
		}
	})
}

// TestPasswordSources: standard input if asked for, else the environment, else a person.
func TestPasswordSources(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.with(passwordVariable, "").run("login").exits(exitUsage).says("--password-stdin")
		piped := d.with(passwordVariable, "wrong")
		piped.stdin = canaryPassword + "\r\nmore"
		piped.run("login", "--password-stdin").exits(exitOK)
		piped.stdin = "\n"
		piped.run("login", "--password-stdin").exits(exitUsage)
		person := d.with(passwordVariable, "")
		person.answers = []string{canaryPassword}
		person.run("login").exits(exitOK)
		if want := []string{"Password of ops@portal.example: "}; len(person.asked) != 1 || person.asked[0] != want[0] {
			t.Errorf("asked %q, want %q", person.asked, want)
		}
		if n := d.calls("POST", "/login"); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
	})
}

func TestLoginFailures(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.with(passwordVariable, "canary-wrong").run("login").exits(exitCredentials).says("INVALID_CREDENTIALS", "password reset", "req-")
		d.with(emailVariable, "").run("login").exits(exitUsage).says("--email")
		d.with(urlVariable, "").run("login").exits(exitUsage).says("--url")
		d.with(urlVariable, "http://portal.example").run("login").exits(exitUsage).says("https://")
		d.with(urlVariable, "https://portal.example/api/v9").run("login").exits(exitUnreachable).says("compare --url")
		d.with(caFileVariable, filepath.Join(t.TempDir(), "none")).run("login").exits(exitUsage).says("CA file")
		d.with(seedVariable, "canary-not-base32!").run("login").exits(exitUsage).says(seedVariable + " is not base32")
		d.with(passwordVariable, canaryPassword+"\n").run("login").exits(exitUsage).says("the password ends with a line break")
		d.with(caFileVariable, fileWith(t, []byte("no PEM"))).run("login").exits(exitUsage).says("--ca-file holds no PEM certificate").saysNot("caBundle")
		if n := d.calls("POST", "/login"); n != 1 {
			t.Errorf("%d logins reached the portal, want 1", n)
		}
		d.with(passwordVariable, "wrong").run("login").exits(exitCredentials).says("INVALID_CREDENTIALS").saysNot("redacted", "e-mail or")
	})
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/login", Body: emulator.BodyHTML})
		d.run("login").exits(exitUnreachable).says("compare --url")
	})
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/login", Status: 407, Body: emulator.BodyHTML})
		d.run("login").exits(exitUnreachable).says("the proxy asks for credentials", "HTTPS_PROXY").saysNot("--url")
	})
	at(t, mfaUser(), func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/mfa/verify-otp", Body: emulator.BodyEmpty})
		d.with(seedVariable, canarySeed).run("login").exits(exitUnreachable).says("report this").saysNot("clock", "seed", "--url")
	})
}

// TestTrust runs over TLS, as users do.
func TestTrust(t *testing.T) {
	d := newDesk(t, emulator.Options{})
	if err := d.portal.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ca := fileWith(t, d.portal.CAPEM())
	run := func(ca string, args ...string) *result {
		out, errOut := &screen{}, &screen{}
		env := d.with(urlVariable, d.portal.URL(), caFileVariable, ca).env
		code := execute(t.Context(), environment{out: out, err: errOut, getenv: func(n string) string { return env[n] }}, args)
		r := &result{t: t, args: args, out: out.String(), err: errOut.String(), code: code}
		r.keepsSecrets()
		return r
	}
	run(ca, "login").exits(exitOK).shows("Administrator", "valid for 8h0m0s")
	run(ca, "versions").exits(exitOK).shows("v1.36.3")
	run("", "login").exits(exitUnreachable).says("trusted authority", "--ca-file").saysNot("caBundle")
	d.portal.Close()
	run(ca, "versions").exits(exitUnreachable).says("refused the connection")
}

// TestCodesCountOnce: two commands in the same half minute share one code.
func TestCodesCountOnce(t *testing.T) {
	at(t, mfaUser(), func(t *testing.T, d *desk) {
		d = d.with(seedVariable, canarySeed)
		time.Sleep(10 * time.Second)
		d.run("versions").exits(exitOK)
		d.run("versions").exits(exitOK).says("Waiting 20s for the next one").shows("v1.36.3")
		d.run("login").exits(exitOK).says("Waiting 30s").shows("on, the code was made")
		if n := d.calls("POST", "/mfa/verify-otp"); n != 5 {
			t.Errorf("%d codes for three commands, want 5", n)
		}
	})
	at(t, mfaUser(), func(_ *testing.T, d *desk) {
		d.with(seedVariable, "JBSWY3DPEHPK3PXP").run("versions").exits(exitCredentials).says("check the seed")
	})
}

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
