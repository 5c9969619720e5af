// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	password string
	claims   func() jwt.Claims // claims of the tokens; if nil, tokens are not JWTs
	wait     time.Duration     // duration of a login
	down     bool              // logins fail

	mu     sync.Mutex
	serial int
	valid  map[string]bool
	logins []time.Time
	others []time.Time // requests other than logins
}

func newDoorman() *doorman { return &doorman{password: "pw", valid: map[string]bool{}} }

func (d *doorman) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(d.wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.URL.Path != "/login" {
		d.others = append(d.others, time.Now())
		if !d.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			return respond(401, `{"error":{"code":"INVALID_TOKEN","message":"expired"}}`), nil
		}
		return respond(200, `{"versions":[]}`), nil
	}
	d.logins = append(d.logins, time.Now())
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch {
	case d.down:
		return respond(503, ""), nil
	case body["password"] != d.password:
		return respond(401, `{"error":{"code":"INVALID_TOKEN","message":"wrong e-mail or password"}}`), nil
	}
	token := d.issue()
	d.valid[token] = true
	return respond(200, fmt.Sprintf(`{"token":%q,"user":{"id":"user-1","email":"x"},"mfaRequired":false}`, token)), nil
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

// TestRefresh checks that tokens live 8 hours and are refreshed after 7, whether or not they name an expiry. A shorter life is read from
// exp, relative to iat if the clocks differ.
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
		"no exp":                 {func() jwt.Claims { return jwt.RegisteredClaims{Subject: "x"} }, 7 * time.Hour},
		"8 hours":                {issued(0, 8*time.Hour), 7 * time.Hour},
		"1 hour":                 {issued(0, time.Hour), 52*time.Minute + 30*time.Second},
		"portal's clock is slow": {issued(-10*time.Hour, time.Hour), 52*time.Minute + 30*time.Second},
		"portal's clock is fast": {issued(10*time.Hour, time.Hour), 52*time.Minute + 30*time.Second},
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

// TestRefreshFails checks that a token that is due for a refresh is used until it expires while logins fail, without a login for each call.
func TestRefreshFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.down = true
		time.Sleep(7*time.Hour + time.Second)
		for range 50 * 60 { // until 10 minutes before the token expires
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(d.logins); n < 40 || n > 60 {
			t.Errorf("%d logins in 50 minutes, want about one a minute", n)
		}
		time.Sleep(10 * time.Minute)
		if err := look(t, c); !IsUnavailable(err) {
			t.Errorf("with the token expired and the login down: %v", err)
		}
	})
}

// TestCreateIsReplayedOnceAfter401 checks that a create is repeated once after a 401, which means that it was not carried out.
func TestCreateIsReplayedOnceAfter401(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusals := range []int{1, 2, 99} {
			seen := 0
			c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/login" {
					return answersWith(200, "")(r)
				}
				body, _ := io.ReadAll(r.Body)
				if !strings.Contains(string(body), `"name":"n"`) {
					t.Errorf("request %d has the body %q", seen, body)
				}
				if seen++; seen <= refusals {
					return respond(401, `{"error":{"code":"INVALID_TOKEN"}}`), nil
				}
				return respond(202, `{"jobId":"j","status":"pending"}`), nil
			})))
			_, err := c.CreateCluster(t.Context(), CreateClusterRequest{Name: "n"})
			if (err == nil) != (refusals == 1) || err != nil && !IsUnauthorized(err) {
				t.Errorf("%d refusals: %v", refusals, err)
			}
			if seen != min(refusals+1, 2) {
				t.Errorf("%d refusals: sent %d times", refusals, seen)
			}
		}
	})
}

// TestWrongPassword checks that a wrong password costs at most two portal calls a minute, however often a reconciler calls, and that the
// client notices when the password is correct again.
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
		d.mu.Lock()
		d.password = "pw"
		d.mu.Unlock()
		untilAuthorized(t, c, maxRefusalBackoff)
	})
}

func untilAuthorized(t *testing.T, c *Client, within time.Duration) {
	start := time.Now()
	for look(t, c) != nil {
		if time.Since(start) > within+time.Second {
			t.Fatalf("still refused after %v", within)
		}
		time.Sleep(time.Second)
	}
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

// TestUserIDAfterARefusedLogin checks that a revoked password shows as soon as a login is refused, although the old token is valid for
// another hour, and that it stops showing after a successful login.
func TestUserIDAfterARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		ask := func(refused bool) {
			t.Helper()
			id, err := c.UserID(t.Context())
			if refused != IsUnauthorized(err) || !refused && id != "user-1" {
				t.Errorf("%v after the start: %q, %v", time.Since(d.logins[0]), id, err)
			}
		}
		ask(false)
		time.Sleep(9 * time.Hour)
		ask(false) // the user id outlives the token
		if err := look(t, c); err != nil || len(d.logins) != 2 {
			t.Errorf("%d logins: %v", len(d.logins), err)
		}
		d.down = true
		d.revokeAll()
		if err := look(t, c); !IsUnavailable(err) {
			t.Fatal(err)
		}
		ask(false) // an outage is no verdict
		d.down = false
		time.Sleep(outageBackoff)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.password = "changed"
		ask(false)
		time.Sleep(7*time.Hour + time.Second)
		if err := look(t, c); err != nil {
			t.Fatalf("the token must still be valid: %v", err)
		}
		ask(true)
		d.password = "pw"
		time.Sleep(2 * time.Minute)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		ask(false)

		d.password = "changed"
		d.revokeAll()
		ask(false) // the client does not know the refusal yet
		if err := look(t, c); !IsUnauthorized(err) {
			t.Fatal(err)
		}
		ask(true)
		d.down = true
		time.Sleep(time.Hour)
		if id, err := c.UserID(t.Context()); !IsUnavailable(err) { // an outage does not hide the refusal
			t.Errorf("%q, %v", id, err)
		}
		d.down, d.password = false, "pw"
		time.Sleep(maxRefusalBackoff)
		ask(false)
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
