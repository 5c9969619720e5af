// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const totpSeed = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"

func mfaOptions() emulator.Options {
	return emulator.Options{Users: []emulator.User{{Email: "admin@portal.example", Password: "p", TOTPSeed: totpSeed}}}
}

func otpBody(t *testing.T, at time.Time) string {
	t.Helper()
	code, err := totp.GenerateCode(totpSeed, at)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"otp":%q}`, code)
}

// TestMFA checks the documented login with MFA (Authentication 3 and 4).
func TestMFA(t *testing.T) {
	bubble(t, mfaOptions(), func(t *testing.T, _ *emulator.Portal, c *caller) {
		c.get("/vpcs").refused(403, emulator.CodeMFARequired)
		c.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(409, emulator.CodeOperationNotAllowed)
		c.post("/mfa/send-otp", "").want(200)
		c.post("/mfa/verify-otp", `{"otp":"000000"}`).refused(400, emulator.CodeInvalidParameter).has("otp", "error", "field")
		pending := &caller{t: t, p: c.p, token: c.token}
		c.token = c.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200).text("token")
		pending.post("/mfa/send-otp", "").refused(401, emulator.CodeInvalidToken) // the pre-MFA token was exchanged
		c.get("/vpcs").want(200)
		c.post("/mfa/send-otp", "").refused(409, emulator.CodeOperationNotAllowed)
		time.Sleep(8*time.Hour - time.Second)
		c.get("/vpcs").want(200)
	})
}

// TestOneTimeCodes checks that a code is valid once, in its step or in a neighbouring step.
func TestOneTimeCodes(t *testing.T) {
	for _, test := range []struct {
		name  string
		drift time.Duration
		want  int
	}{
		{"now", 0, 200}, {"one step slow", -30 * time.Second, 200}, {"one step fast", 30 * time.Second, 200},
		{"two steps slow", -time.Minute, 400}, {"two steps fast", time.Minute, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, mfaOptions(), func(t *testing.T, _ *emulator.Portal, c *caller) {
				c.post("/mfa/send-otp", "").want(200)
				c.post("/mfa/verify-otp", otpBody(t, time.Now().Add(test.drift))).want(test.want)
			})
		})
	}
	bubble(t, mfaOptions(), func(t *testing.T, p *emulator.Portal, c *caller) {
		c.post("/mfa/send-otp", "").want(200)
		c.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200)
		again := login(t, p)
		again.post("/mfa/send-otp", "").want(200)
		again.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(400, emulator.CodeInvalidParameter)
		time.Sleep(30 * time.Second)
		again.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200)
	})
}

// TestGuessing checks that wrong codes end the pre-MFA token, and that the token expires.
func TestGuessing(t *testing.T) {
	bubble(t, mfaOptions(), func(t *testing.T, p *emulator.Portal, c *caller) {
		c.post("/mfa/send-otp", "").want(200)
		for range 5 {
			c.post("/mfa/verify-otp", `{"otp":"000000"}`).refused(400, emulator.CodeInvalidParameter)
		}
		c.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(401, emulator.CodeInvalidToken)
		c = login(t, p)
		time.Sleep(10 * time.Minute)
		c.post("/mfa/send-otp", "").refused(401, emulator.CodeInvalidToken)
	})
}

// TestDisableMFA checks that an Administrator disables MFA for the account's users of one identity provider, and for no others (Authentication 6).
func TestDisableMFA(t *testing.T) {
	users := []emulator.User{
		{Email: "admin@portal.example", Password: "p"},
		{Email: "user@portal.example", Password: "p", Role: emulator.RoleUser},
		{Email: "mfa@portal.example", Password: "p", TOTPSeed: totpSeed, IDP: "ldap"},
		{Email: "other@portal.example", Password: "p", TOTPSeed: totpSeed, IDP: "ldap", Account: "other"},
	}
	bubble(t, emulator.Options{Users: users}, func(t *testing.T, p *emulator.Portal, c *caller) {
		loginAs(t, p, "mfa@portal.example", "p").get("/vpcs").refused(403, emulator.CodeMFARequired)
		loginAs(t, p, "user@portal.example", "p").post("/admin/mfa/disable/ldap", "").refused(403, emulator.CodeForbidden)
		c.post("/admin/mfa/disable/saml", "").refused(404, emulator.CodeResourceNotFound)
		c.post("/admin/mfa/disable/ldap", "").want(200)
		loginAs(t, p, "mfa@portal.example", "p").get("/vpcs").want(200)
		loginAs(t, p, "other@portal.example", "p").get("/vpcs").refused(403, emulator.CodeMFARequired)
	})
}
