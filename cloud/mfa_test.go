// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
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

	mu     sync.Mutex
	used   []string
	valid  map[string]bool
	seen   []string // path of every request, in order
	seenAt []time.Time
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
		return respond(401, fmt.Sprintf(`{"error":{"code":"INVALID_PARAMETER","message":"%s is wrong","field":"otp"}}`, code))
	}
	g.used = append(g.used, code)
	token := testJWT(g.t, fmt.Sprintf("full-%d", len(g.used)))
	g.valid[token] = true
	return respond(200, fmt.Sprintf(g.answer, token))
}

func (g *guarded) count(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(filter(g.seen, func(p string) bool { return p == path }))
}

// TestSecondFactor checks that the client finds the token of verify-otp under every usual name. Under any other name, it is the only JWT of
// the answer that the client does not have already. An answer without a token says nothing about the code or the credentials.
func TestSecondFactor(t *testing.T) {
	for want, answers := range map[string][]string{
		tokenUsualName: {`{"token":%q}`, `{"accessToken":%q}`, `{"access_token":%q}`, `{"jwt":%q}`, `{"token":%q,"refreshToken":"` + testJWT(t, "other") + `"}`},
		tokenNested: {
			`{"data":{"token":%q}}`, `{"token":{"access_token":%q}}`, `{"data":{"session":{"bearer":%q}}}`, `[{"x":%q}]`,
		},
		tokenOtherName: {
			`{"authToken":%q}`, `%q`, `{"token":"opaque","authToken":%q}`,
			`{"authToken":%q,"echo":"` + testJWT(t, "pre") + `"}`, `{"a":%[1]q,"b":%[1]q}`,
		},
		"": {`{"token":"%.0s"}`, `{"token":"a b%.0s"}`, `{"a":{"token":"1"},"b":{"token":"2%.0s"}}`, `{"a":%q,"b":"` + testJWT(t, "b") + `"}`},
	} {
		for _, answer := range answers {
			synctest.Test(t, func(t *testing.T) {
				portal := newGuarded(t)
				portal.answer = answer
				config, seen := testConfig(portal), ""
				config.TOTPSeed = testSeed
				config.ObserveShape = func(gap, shape string) {
					if gap == gapOTPToken {
						seen += shape
					}
				}
				if err := look(t, newClient(t, config)); seen != want || IsNotPortal(err) != (want == "") || err != nil && want != "" {
					t.Errorf("%s: %q, want %q: %v", answer, seen, want, err)
				}
				requests := []string{"/login", "/mfa/send-otp", "/mfa/verify-otp", "/kubernetes-versions"}
				if want != "" && !slices.Equal(portal.seen, requests) {
					t.Errorf("%s: requests %v", answer, portal.seen)
				}
			})
		}
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
				portal.valid = map[string]bool{}
				err := look(t, c)
				if at, _ := RetryAt(err); !wait && IsRateLimited(err) {
					time.Sleep(time.Until(at))
					err = look(t, c)
				}
				if err != nil {
					t.Fatalf("wait=%v: %v", wait, err)
				}
			}
			if codes, logins := portal.count("/mfa/verify-otp"), portal.count("/login"); codes != 4 || logins != 4 {
				t.Errorf("wait=%v: %d codes were sent for %d logins, want 4 and none without a code", wait, codes, logins)
			}
		})
	}
}

// TestWrongSeed checks that the client sends at most one code per step. After three refused codes it pauses for five minutes, and then for twice
// as long each time, up to 40 minutes. A code that is accepted ends the pauses.
func TestWrongSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		portal.seed = "GEZDGNBVGY3TQOJQ"
		config := testConfig(portal)
		config.TOTPSeed = testSeed
		c := newClient(t, config)
		for range 150 * 60 {
			if err := look(t, c); !IsUnauthorized(err) {
				t.Fatalf("%q: %v", which(t, err), err)
			}
			time.Sleep(time.Second)
		}
		var last time.Time
		var gaps []time.Duration
		for i, path := range portal.seen {
			if path == "/mfa/verify-otp" {
				gaps, last = append(gaps, portal.seenAt[i].Sub(last)), portal.seenAt[i]
			}
		}
		want := []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 40 * time.Minute}
		if !slices.Equal(gaps[1:], want) {
			t.Errorf("the pauses between codes are %v, want %v", gaps[1:], want)
		}

		portal.seed = testSeed
		time.Sleep(maxOTPPause)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		portal.seed, portal.valid = "GEZDGNBVGY3TQOJQ", map[string]bool{}
		time.Sleep(otpStep)
		if at, ok := RetryAt(look(t, c)); !ok || time.Until(at) > time.Minute {
			t.Errorf("the first refused code after an accepted one pauses for %v", time.Until(at))
		}
	})
}

// TestPrompt checks that a client without a seed prompts once, after the code was sent, and sends no code if the prompt returns an error or
// an empty code. Without a prompt its error names the seed, and it makes no more than two requests in a minute.
func TestPrompt(t *testing.T) {
	closed := errors.New("closed")
	for name, prompt := range map[string]func() (string, error){
		"a code":   func() (string, error) { return totp.GenerateCode(testSeed, time.Now()) },
		"no code":  func() (string, error) { return "", nil },
		"an error": func() (string, error) { return "123456", closed },
		"nothing":  nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			portal, asked := newGuarded(t), 0
			config := testConfig(portal)
			if prompt != nil {
				config.OTP = func(context.Context) (string, error) {
					if asked++; portal.count("/mfa/send-otp") != 1 {
						t.Error("prompted before the code was sent")
					}
					return prompt()
				}
			}
			c := newClient(t, config)
			err := look(t, c)
			switch codes := portal.count("/mfa/verify-otp"); {
			case name == "a code" && (err != nil || asked != 1):
				t.Errorf("prompted %d times: %v", asked, err)
			case name != "a code" && (!IsMFARequired(err) || errors.Is(err, closed) != (name == "an error") || codes != 0):
				t.Errorf("%s: %d codes were sent: %v", name, codes, err)
			}
			for start := time.Now(); prompt == nil && time.Since(start) < time.Minute; time.Sleep(time.Second) {
				if err := look(t, c); !strings.Contains(err.Error(), "totpSeed") || portal.count("/login") > 2 {
					t.Errorf("%s: %d logins: %v", name, portal.count("/login"), err)
				}
			}
		})
	}
}
