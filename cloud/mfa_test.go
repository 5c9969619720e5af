// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pquerna/otp/totp"
)

const testSeed = "JBSWY3DPEHPK3PXP"

// guarded is a portal whose account has MFA. It accepts each code once.
type guarded struct {
	t      *testing.T
	seed   string
	pre    string // the token of a login without its second factor
	answer string // answer of verify-otp, with %s for the token

	mu      sync.Mutex
	used    []string
	serial  int
	valid   map[string]bool
	seen    []string // path of every request, in order
	seenAt  []time.Time
	refused int
}

func newGuarded(t *testing.T) *guarded {
	return &guarded{t: t, seed: testSeed, pre: testJWT(t, "pre"), answer: `{"token":%q}`, valid: map[string]bool{}}
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.seenAt = append(g.seen, r.URL.Path), append(g.seenAt, time.Now())
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if pre := token == g.pre; pre != strings.HasPrefix(r.URL.Path, "/mfa/") {
		g.t.Errorf("%s was called with token %q", r.URL.Path, token)
	}
	switch r.URL.Path {
	case "/login":
		return respond(200, fmt.Sprintf(`{"token":%q,"user":{"id":"user-1"},"mfaRequired":true}`, g.pre)), nil
	case "/mfa/send-otp":
		if r.Body != nil {
			g.t.Error("send-otp has a body")
		}
		return respond(204, ""), nil
	case "/mfa/verify-otp":
		return g.verify(r), nil
	}
	if !g.valid[token] {
		return respond(401, `{"error":{"code":"INVALID_TOKEN"}}`), nil
	}
	return respond(200, `{"versions":[]}`), nil
}

func (g *guarded) verify(r *http.Request) *http.Response {
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body)
	code := body["otp"]
	want, err := totp.GenerateCode(g.seed, time.Now())
	if err != nil {
		panic(err)
	}
	if code != want || slices.Contains(g.used, code) {
		g.refused++
		return respond(401, fmt.Sprintf(`{"error":{"code":"INVALID_PARAMETER","message":"%s is wrong","field":"otp"}}`, code))
	}
	g.used = append(g.used, code)
	g.serial++
	token := testJWT(g.t, fmt.Sprintf("full-%d", g.serial))
	g.valid[token] = true
	return respond(200, fmt.Sprintf(g.answer, token))
}

func (g *guarded) count(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, p := range g.seen {
		if p == path {
			n++
		}
	}
	return n
}

// TestSecondFactor checks that the client finds the token of verify-otp under every usual name. Under any other name, it is the only JWT of
// the answer that the client does not have already.
func TestSecondFactor(t *testing.T) {
	for _, answer := range []string{
		`{"token":%q}`, `{"accessToken":%q}`, `{"access_token":%q}`, `{"jwt":%q}`,
		`{"data":{"token":%q}}`, `{"user":{"id":"x"},"result":{"jwt":%q}}`, `{"token":{"access_token":%q}}`,
		`{"authToken":%q}`, `{"sessionToken":%q,"expiresIn":28800}`, `{"data":{"session":{"bearer":%q}}}`, `[{"x":%q}]`, `%q`,
		`{"token":"opaque","authToken":%q}`, `{"authToken":%q,"echo":"` + testJWT(t, "pre") + `"}`, `{"a":%[1]q,"b":%[1]q}`,
		`{"token":%q,"refreshToken":"` + testJWT(t, "other") + `"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			portal := newGuarded(t)
			portal.answer = answer
			config := testConfig(portal)
			config.TOTPSeed = testSeed
			if err := look(t, newClient(t, config)); err != nil {
				t.Errorf("%s: %v", answer, err)
			}
			want := []string{"/login", "/mfa/send-otp", "/mfa/verify-otp", "/kubernetes-versions"}
			if !slices.Equal(portal.seen, want) {
				t.Errorf("%s: requests %v", answer, portal.seen)
			}
		})
	}
}

// TestEachCodeOnce checks that a new login within the same 30 s step waits for the next code, and that a used code is never sent again.
func TestEachCodeOnce(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			portal := newGuarded(t)
			config := testConfig(portal)
			config.TOTPSeed, config.Wait = testSeed, wait
			c := newClient(t, config)
			for range 4 {
				portal.mu.Lock()
				portal.valid = map[string]bool{}
				portal.mu.Unlock()
				if wait {
					if err := look(t, c); err != nil {
						t.Fatal(err)
					}
				} else {
					untilDone(t, func() error { return look(t, c) })
				}
			}
			if portal.refused != 0 {
				t.Errorf("wait=%v: %d codes were refused", wait, portal.refused)
			}
			if n := portal.count("/mfa/verify-otp"); n != 4 {
				t.Errorf("wait=%v: %d codes sent for 4 logins", wait, n)
			}
			if n := portal.count("/login"); n != 4 {
				t.Errorf("wait=%v: %d logins, want none without a code", wait, n)
			}
		})
	}
}

// TestWrongSeed checks that the client sends at most one code per step, and pauses for minutes after three refusals.
func TestWrongSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		portal.seed = "GEZDGNBVGY3TQOJQ"
		config := testConfig(portal)
		config.TOTPSeed = testSeed
		c := newClient(t, config)
		for range 3600 {
			err := look(t, c)
			if !IsUnauthorized(err) {
				t.Fatalf("%q: %v", which(t, err), err)
			}
			time.Sleep(time.Second)
		}
		var verified []time.Time
		for i, path := range portal.seen {
			if path == "/mfa/verify-otp" {
				verified = append(verified, portal.seenAt[i])
			}
		}
		if len(verified) < 4 || len(verified) > 10 {
			t.Errorf("%d codes in an hour", len(verified))
		}
		for i := range verified[1:] {
			least := otpStep
			if i >= otpTries-1 {
				least = otpPause
			}
			if gap := verified[i+1].Sub(verified[i]); gap < least {
				t.Errorf("code %d came %v after the one before, want at least %v", i+2, gap, least)
			}
		}
	})
}

func TestNoSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		c := newClient(t, testConfig(portal))
		for range 60 {
			err := look(t, c)
			if !IsMFARequired(err) || !strings.Contains(err.Error(), "totpSeed") || !strings.Contains(err.Error(), "without MFA") {
				t.Fatalf("%q: %v", which(t, err), err)
			}
			time.Sleep(time.Second)
		}
		if n := len(portal.seen); n > 2 {
			t.Errorf("%d requests in a minute: %v", n, portal.seen)
		}
	})
}

// TestPrompt checks that the client prompts once, after the code was sent.
func TestPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(portal)
		asked := 0
		config.OTP = func(context.Context) (string, error) {
			asked++
			if portal.count("/mfa/send-otp") != 1 {
				t.Error("prompted before the code was sent")
			}
			return totp.GenerateCode(testSeed, time.Now())
		}
		if err := look(t, newClient(t, config)); err != nil || asked != 1 {
			t.Errorf("prompted %d times: %v", asked, err)
		}
	})
}

// TestMFASwitchedOn checks that a new login uses the second factor after MFA was enabled during a token's life, which makes the portal
// treat the token as pre-MFA.
func TestMFASwitchedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") == "Bearer old" {
				return respond(403, `{"error":{"code":"MFA_REQUIRED"}}`), nil
			}
			return portal.RoundTrip(r)
		}))
		config.TOTPSeed = testSeed
		c := newClient(t, config)
		c.session.current = schedule("old", Login{UserID: "user-1"}, time.Now())
		if err := look(t, c); err != nil {
			t.Error(err)
		}
	})
}
