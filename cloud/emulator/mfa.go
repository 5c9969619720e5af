// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// DefaultIDP is the identity provider of users whose options name none. The specification shows no values.
const DefaultIDP = "portal"

const (
	totpPeriod    = 30 // seconds, RFC 6238
	maxOTPMisses  = 5  // then the pre-MFA token is void, so that codes cannot be guessed in a loop
	neighbourStep = 1  // a code of the step before or after counts too, RFC 6238 section 5.2
)

// sendOTP answers POST /mfa/send-otp. The channel is an authenticator app, which needs no message.
func (p *Portal) sendOTP(c *call) (answer, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.session.otpSent = true
	return answer{status: p.opts.Shapes.SendOTPStatus, body: struct{}{}}, nil
}

type otpBody struct {
	OTP string `json:"otp" portal:"required"`
}

// verifyOTP answers POST /mfa/verify-otp with a full-access token.
func (p *Portal) verifyOTP(c *call) (answer, *refusal) {
	var body otpBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := c.session
	if !s.otpSent {
		return answer{}, refuse(CodeOperationNotAllowed, "no one-time code was sent: call /mfa/send-otp first")
	}
	if !s.user.accept(body.OTP, c.now()) {
		s.otpMisses++
		s.revoked = s.otpMisses >= maxOTPMisses
		return answer{}, invalid("otp", "the one-time code is wrong, expired or used already")
	}
	s.revoked = true // it has served its purpose
	c.session = p.openSession(s.user, false, c.now())
	return answer{status: http.StatusOK, body: p.opts.Shapes.verified(p.sign(c.session))}, nil
}

// accept checks a one-time code. Each step's code counts once.
func (u *user) accept(code string, now time.Time) bool {
	current := now.Unix() / totpPeriod
	for step := current - neighbourStep; step <= current+neighbourStep; step++ {
		want, err := codeAt(u.TOTPSeed, step)
		if err == nil && step > u.lastStep && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			u.lastStep = step
			return true
		}
	}
	return false
}

func codeAt(seed string, step int64) (string, error) {
	return totp.GenerateCodeCustom(seed, time.Unix(step*totpPeriod, 0),
		totp.ValidateOpts{Period: totpPeriod, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
}

func validSeed(seed string) bool {
	_, err := codeAt(seed, 0)
	return err == nil
}

// disableMFA answers POST /admin/mfa/disable/{idp}: the account's users of that identity provider log in without MFA
// from now on. The specification does not show its effect. This is our reading of "manages MFA".
func (p *Portal) disableMFA(c *call) (answer, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	idp, found := c.params["idp"], false
	for _, u := range p.users {
		if u.Account == c.account && strings.EqualFold(u.IDP, idp) {
			found = true
			if u.mfa {
				u.mfa = false
				c.note(LogEntry{Object: "user", ID: u.ID, Account: u.Account, From: "MFA", To: "no MFA"})
			}
		}
	}
	if !found {
		return answer{}, notFound("identity provider", idp)
	}
	return answer{status: http.StatusOK, body: struct{}{}}, nil
}
