// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// doorman is the part of a portal that knows users. It issues tokens, and accepts only those that it has issued and not revoked. All its
// other endpoints return an empty list of versions.
type doorman struct {
	password string                    // if empty, every password is right
	refusal  func() *http.Response     // of a wrong password
	user     func(email string) string // returns the user's id
	claims   func() jwt.Claims         // of the tokens; if nil, tokens are not JWTs
	wait     time.Duration             // duration of a login
	down     bool                      // logins fail

	retryAfter string // header of a failed login

	mu     sync.Mutex
	serial int
	valid  map[string]bool
	logins []time.Time
	others []time.Time // requests other than logins
}

func newDoorman() *doorman {
	refusal := func() *http.Response { return respond(401, refusedToken) }
	return &doorman{password: "pw", user: strings.ToLower, refusal: refusal, valid: map[string]bool{}}
}

func (d *doorman) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(d.wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.URL.Path != "/login" {
		d.others = append(d.others, time.Now())
		if !d.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			return respond(401, refusedToken), nil
		}
		return respond(200, `{"versions":[]}`), nil
	}
	d.logins = append(d.logins, time.Now())
	var body loginRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case d.down:
		failed := respond(503, "")
		failed.Header.Set("Retry-After", d.retryAfter)
		return failed, nil
	case d.password != "" && d.password != body.Password:
		return d.refusal(), nil
	}
	token := d.issue()
	d.valid[token] = true
	return respond(200, fmt.Sprintf(`{"token":%q,"user":{"id":%q,"email":"x"},"mfaRequired":false}`, token, d.user(body.Email))), nil
}

func (d *doorman) issue() string {
	d.serial++
	if d.claims == nil {
		return fmt.Sprintf("token-%d", d.serial)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, d.claims())
	token.Header["serial"] = d.serial
	signed, err := token.SignedString([]byte("portal"))
	if err != nil {
		panic(err)
	}
	return signed
}

func (d *doorman) revokeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.valid = map[string]bool{}
}

func look(t *testing.T, c *Client) error {
	_, err := c.KubernetesVersions(t.Context())
	return err
}

// TestManyCallersShareOneLogin checks that a caller that gives up does not end the login for the others.
func TestManyCallersShareOneLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		d.wait = time.Second
		c := newClient(t, testConfig(d))
		var group sync.WaitGroup
		group.Go(func() {
			impatient, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			if _, err := c.KubernetesVersions(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the impatient caller got %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		for range 40 {
			group.Go(func() {
				if err := look(t, c); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		d.revokeAll()
		for range 40 {
			group.Go(func() { untilDone(t, func() error { return look(t, c) }) })
		}
		group.Wait()
		if len(d.logins) != 2 {
			t.Errorf("%d logins, want one at first and one after the token was revoked", len(d.logins))
		}
	})
}

// TestRefresh checks that tokens are refreshed after seven eighths of 8 hours, or of a shorter life by the clock that issued them.
func TestRefresh(t *testing.T) {
	issued := func(skew, life time.Duration) func() jwt.Claims {
		return func() jwt.Claims {
			now := time.Now().Add(skew)
			return jwt.RegisteredClaims{IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life))}
		}
	}
	for name, test := range map[string]struct {
		claims func() jwt.Claims
		want   time.Duration
	}{
		"no JWT":                 {nil, 7 * time.Hour},
		"1 hour":                 {issued(0, time.Hour), 52*time.Minute + 30*time.Second},
		"portal's clock is slow": {issued(-10*time.Hour, time.Hour), 52*time.Minute + 30*time.Second},
		"exp without iat": {func() jwt.Claims {
			return jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(4 * time.Hour))}
		}, 210 * time.Minute},
		"already expired": {func() jwt.Claims {
			return jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(-time.Hour))}
		}, 7 * time.Hour},
		"a year":   {issued(0, 365*24*time.Hour), 7 * time.Hour},
		"1 second": {issued(0, time.Second), 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoorman()
				d.claims = test.claims
				c := newClient(t, testConfig(d))
				start := time.Now()
				for len(d.logins) < 2 {
					untilDone(t, func() error { return look(t, c) })
					time.Sleep(test.want / 1000)
				}
				if got := d.logins[1].Sub(start); got < test.want || got > test.want+test.want/500+time.Second {
					t.Errorf("refreshed after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestWrongPassword checks that a wrong password costs at most two logins a minute, and that the client notices when it is right again.
func TestWrongPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		d.password = "changed"
		c := newClient(t, testConfig(d))
		for range 3600 {
			err := look(t, c)
			at, ok := RetryAt(err)
			if !IsUnauthorized(err) || !ok || !at.After(time.Now()) {
				t.Fatalf("%q, retry at %v: %v", which(t, err), at, err)
			}
			time.Sleep(time.Second)
		}
		if worst := mostInAMinute(d.logins); worst > 2 {
			t.Errorf("%d logins in a minute", worst)
		}
		if n := len(d.logins); n < 5 || n > 15 || len(d.others) != 0 {
			t.Errorf("%d logins and %d other requests in an hour", n, len(d.others))
		}
		d.password = "pw"
		time.Sleep(maxRefusalBackoff)
		if err := look(t, c); err != nil {
			t.Errorf("with the right password: %v", err)
		}
	})
}

func mostInAMinute(times []time.Time) int {
	most := 0
	for i, from := range times {
		n := 0
		for _, at := range times[i:] {
			if at.Sub(from) < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestUserIDAfterARefusedLogin checks that a revoked password shows as soon as a login is refused, and until one succeeds.
func TestUserIDAfterARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		set := func(password string, down bool) func() {
			return func() { d.password, d.down = password, down }
		}
		revoked := func(password string, down bool) func() {
			return func() { d.revokeAll(); set(password, down)() }
		}
		for _, step := range []struct {
			what       string
			change     func()
			after      time.Duration
			call, user string // classes of their errors. "-" makes no call
		}{
			{"a login", func() {}, 0, "-", ""},
			{"the user id outlives the token", func() {}, 9 * time.Hour, "-", ""},
			{"an outage is no verdict", revoked("pw", true), 0, "unavailable", ""},
			{"the outage ends", set("pw", false), outageBackoff, "", ""},
			{"a new password, and a valid token", set("changed", false), 0, "-", ""},
			{"the refresh is refused", func() {}, 7*time.Hour + time.Second, "", "unauthorized"},
			{"the old password again", set("pw", false), 2 * time.Minute, "", ""},
			{"a refusal to come", revoked("changed", false), 0, "-", ""},
			{"a refusal", func() {}, 0, "unauthorized", "unauthorized"},
			{"an outage does not hide the refusal", set("changed", true), time.Hour, "-", "unavailable"},
			{"the password and the portal are back", set("pw", false), maxRefusalBackoff, "-", ""},
		} {
			step.change()
			time.Sleep(step.after)
			if step.call != "-" {
				if err := look(t, c); which(t, err) != step.call {
					t.Errorf("%s: a call: %v", step.what, err)
				}
			}
			if id, err := c.UserID(t.Context()); which(t, err) != step.user || (err == nil) != (id == "robot@example.test") {
				t.Errorf("%s: user %q, %v", step.what, id, err)
			}
		}
	})
}

// TestObserveLogin checks that ObserveLogin is called only when a login ends.
func TestObserveLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		var ends []error
		config := testConfig(d)
		config.ObserveLogin = func(err error) { ends = append(ends, err) }
		c := newClient(t, config)
		for range 2 {
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
		}
		d.revokeAll()
		d.password = "changed"
		for range 2 { // the client refuses the second without asking the portal
			_ = look(t, c)
		}
		time.Sleep(time.Minute)
		d.down = true
		_ = look(t, c)
		if len(ends) != 3 || ends[0] != nil || !IsUnauthorized(ends[1]) || !IsUnavailable(ends[2]) {
			t.Errorf("%v", ends)
		}
	})
}
