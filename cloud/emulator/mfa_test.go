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
	must(t, err)
	return fmt.Sprintf(`{"otp":%q}`, code)
}

// TestMFA checks what ends a pre-MFA token and a code: its use, wrong codes and time. conformance has the documented login.
func TestMFA(t *testing.T) {
	bubble(t, mfaOptions(), func(t *testing.T, p *emulator.Portal, c *caller) {
		c.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(409, emulator.CodeOperationNotAllowed)
		c.post("/mfa/send-otp", "").want(200)
		full := &caller{t: t, p: p, token: c.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200).text("token")}
		c.post("/mfa/send-otp", "").refused(401, emulator.CodeInvalidToken)
		full.post("/mfa/send-otp", "").refused(409, emulator.CodeOperationNotAllowed)

		again := login(t, p)
		again.post("/mfa/send-otp", "").want(200)
		again.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(400, emulator.CodeInvalidParameter)
		time.Sleep(30 * time.Second)
		again.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200)

		guesses := login(t, p)
		guesses.post("/mfa/send-otp", "").want(200)
		time.Sleep(30 * time.Second)
		for range 5 {
			guesses.post("/mfa/verify-otp", `{"otp":"000000"}`).refused(400, emulator.CodeInvalidParameter).has("otp", "error", "field")
		}
		guesses.post("/mfa/verify-otp", otpBody(t, time.Now())).refused(401, emulator.CodeInvalidToken)
		late := login(t, p)
		time.Sleep(10 * time.Minute)
		late.post("/mfa/send-otp", "").refused(401, emulator.CodeInvalidToken)
		full.get("/vpcs").want(200)
	})
}

// TestOneTimeCodes checks that a code is valid in its step and in the neighbouring steps.
func TestOneTimeCodes(t *testing.T) {
	for drift, want := range map[time.Duration]int{
		-time.Minute: 400, -30 * time.Second: 200, 0: 200, 30 * time.Second: 200, time.Minute: 400,
	} {
		bubble(t, mfaOptions(), func(t *testing.T, _ *emulator.Portal, c *caller) {
			c.post("/mfa/send-otp", "").want(200)
			c.post("/mfa/verify-otp", otpBody(t, time.Now().Add(drift))).want(want)
		})
	}
}

// TestDisableMFA checks that an Administrator disables MFA for the account's users of one identity provider only (Authentication 6).
func TestDisableMFA(t *testing.T) {
	users := []emulator.User{
		{Email: "admin@portal.example", Password: "p"},
		{Email: "mfa@portal.example", Password: "p", TOTPSeed: totpSeed, IDP: "ldap"},
		{Email: "other@portal.example", Password: "p", TOTPSeed: totpSeed, IDP: "ldap", Account: "other"},
	}
	bubble(t, emulator.Options{Users: users}, func(t *testing.T, p *emulator.Portal, c *caller) {
		c.post("/admin/mfa/disable/saml", "").refused(404, emulator.CodeResourceNotFound)
		loginAs(t, p, "mfa@portal.example", "p").get("/vpcs").refused(403, emulator.CodeMFARequired)
		c.post("/admin/mfa/disable/ldap", "").want(200)
		loginAs(t, p, "mfa@portal.example", "p").get("/vpcs").want(200)
		loginAs(t, p, "other@portal.example", "p").get("/vpcs").refused(403, emulator.CodeMFARequired)
	})
}
