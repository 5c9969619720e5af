// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/pquerna/otp/totp"
)

// Rules against guessing: one code per TOTP step, and a pause after three refused codes.
const (
	otpStep      = 30 * time.Second
	otpTries     = 3
	otpPause     = 5 * time.Minute
	maxOTPPause  = 40 * time.Minute
	otpWithout   = "the account has MFA: give the identity its totpSeed, or use a portal user without MFA"
	otpUsed      = "waiting for the next one-time code"
	otpNotGotten = "no one-time code was given"
)

// secondFactor turns a pre-MFA token into a full one (specification, "Authentication", rule 3). The pre-MFA token
// goes to the two MFA endpoints only.
type secondFactor struct {
	seed secret
	hide secret // the password: no error repeats it
	ask  func(context.Context) (string, error)
	wait bool
	next handler

	note func(gap, shape string) // Config.ObserveShape

	mu       sync.Mutex
	used     time.Time // begin of the last code's TOTP step. A portal may take each code only once
	refusals int
}

// ready returns an error with the time of the next code if the present one has been used. It is called before the login, to spare the
// portal a login that cannot be completed.
func (f *secondFactor) ready(now time.Time) error {
	if next := f.nextCode(now); !f.wait && next.After(now) {
		return &Error{Endpoint: routeVerifyOTP.String(), Message: otpUsed, RetryAt: next, kind: kindRateLimited}
	}
	return nil
}

// nextCode returns when there is a code that has not been used: at the end of the present step if its code was used, or else now. When
// the clock is set back, an older step's code is as good as any: the portal decides.
func (f *secondFactor) nextCode(now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Truncate(otpStep).Equal(f.used) {
		return f.used.Add(otpStep)
	}
	return now
}

func (f *secondFactor) pass(ctx context.Context, preMFA string) (string, error) {
	if f.seed == nil && f.ask == nil {
		return "", &Error{Endpoint: routeLogin.String(), Message: otpWithout, kind: kindMFARequired}
	}
	if _, err := f.call(ctx, routeSendOTP, preMFA, ""); err != nil {
		return "", err
	}
	code, err := f.code(ctx)
	if err != nil {
		return "", err
	}
	a, err := f.call(ctx, routeVerifyOTP, preMFA, code)
	if err != nil {
		return "", f.count(err)
	}
	token, shape := tokenIn(a.body, preMFA)
	if token == "" {
		return "", withoutToken(&call{route: routeVerifyOTP}, a)
	}
	f.note(gapOTPToken, shape)
	return token, f.count(nil)
}

// code makes one code, or asks for it. It waits until there is one that has not been used.
func (f *secondFactor) code(ctx context.Context) (string, error) {
	if f.seed == nil {
		code, err := f.ask(ctx)
		if err != nil || code == "" {
			return "", &Error{Endpoint: routeVerifyOTP.String(), Message: otpNotGotten, kind: kindMFARequired, cause: err}
		}
		return code, nil
	}
	time.Sleep(time.Until(f.nextCode(time.Now()))) // only with Config.Wait, because ready refuses the login otherwise
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	code, err := totp.GenerateCode(f.seed.reveal(), now)
	if err != nil {
		return "", invalidInput("totpSeed", "makes no code") // New has checked it
	}
	f.used = now.Truncate(otpStep)
	return code, nil
}

// call sends one MFA request with the pre-MFA token.
func (f *secondFactor) call(ctx context.Context, r route, preMFA, code string) (*answer, error) {
	var body any
	if code != "" {
		body = map[string]string{"otp": code}
	}
	c, err := newCall(r, "", body)
	if err != nil {
		return nil, err
	}
	c.token = conceal(preMFA)
	c.hidden = []string{code, f.seed.reveal(), f.hide.reveal()}
	a, err := f.next.do(ctx, c)
	if err != nil {
		return nil, err
	}
	if !a.ok() {
		return nil, loginRefused(refused(c, a))
	}
	return a, nil
}

// count notes a refused or accepted code.
func (f *secondFactor) count(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.refusals = 0
		return nil
	}
	e := asError(err)
	if !IsUnauthorized(e) {
		return err
	}
	f.refusals++
	if f.refusals >= otpTries {
		pause := min(otpPause<<min(f.refusals-otpTries, 10), maxOTPPause)
		e.RetryAt = time.Now().Add(pause)
	}
	return e
}
