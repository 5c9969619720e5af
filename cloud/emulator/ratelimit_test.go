// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRateLimit checks the limit to the exact request: 50 at once, then one every 200 ms, for all users and endpoints of an account
// together (Limits).
func TestRateLimit(t *testing.T) {
	users := []emulator.User{
		{Email: "a@portal.example", Password: "p"}, {Email: "b@portal.example", Password: "p"},
		{Email: "c@portal.example", Password: "p", Account: "other"},
	}
	bubble(t, emulator.Options{Users: users}, func(t *testing.T, p *emulator.Portal, a *caller) {
		b := loginAs(t, p, "b@portal.example", "p") // the second request, after a's login
		for i := range 48 {
			left := []*caller{a, b}[i%2].get("/vpcs").want(200).header.Get("X-RateLimit-Remaining")
			if want := strconv.Itoa(47 - i); left != want {
				t.Fatalf("request %d: %s remaining, want %s", i+3, left, want)
			}
		}
		r := a.get("/vpcs").refused(429, emulator.CodeRateLimited)
		for header, want := range map[string]string{
			"X-RateLimit-Limit": "300", "X-RateLimit-Remaining": "0", "Retry-After": "1",
			"X-RateLimit-Reset": strconv.FormatInt(time.Now().Add(10*time.Second).Unix(), 10), // 50 × 200 ms
		} {
			if got := r.header.Get(header); got != want {
				t.Errorf("%s: %s, want %s", header, got, want)
			}
		}
		a.post("/login", `{"email":"b@portal.example","password":"p"}`).refused(429, emulator.CodeRateLimited)
		loginAs(t, p, "c@portal.example", "p").get("/vpcs").want(200) // another account

		time.Sleep(200*time.Millisecond - time.Nanosecond)
		b.get("/vpcs").refused(429, emulator.CodeRateLimited)
		time.Sleep(time.Nanosecond)
		b.get("/vpcs").want(200)
		a.get("/vpcs").refused(429, emulator.CodeRateLimited)
		time.Sleep(time.Hour)
		for range 50 {
			a.get("/vpcs").want(200)
		}
		a.get("/vpcs").refused(429, emulator.CodeRateLimited)
	})
}

// TestBudgets checks that reading an account's budget costs no token, and that other users of the account reduce the budget.
func TestBudgets(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		for i := range 10 {
			left, err := strconv.Atoi(c.get("/vpcs").want(200).header.Get("X-RateLimit-Remaining"))
			if err != nil {
				t.Fatal(err)
			}
			want := emulator.Budget{Account: emulator.DefaultAccount, Remaining: left, Burst: 50, PerMinute: 300}
			for range 3 {
				if got := p.Budgets(); len(got) != 1 || got[0] != want {
					t.Fatalf("after %d requests: %+v, want %+v", i+2, got, want)
				}
			}
		}
		time.Sleep(time.Second)
		if got := p.Budgets()[0].Remaining; got != 44 {
			t.Errorf("a second later %d are left, want 39 and 5 more", got)
		}
		if err := p.Inject(emulator.Fault{OthersPerMinute: 6000}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := p.Budgets()[0].Remaining; got != 0 {
			t.Errorf("beside a busy neighbour %d are left", got)
		}
		p.ClearFaults()
		time.Sleep(time.Second)
		if got := p.Budgets()[0].Remaining; got != 5 {
			t.Errorf("a second after the neighbour went %d are left", got)
		}
	})
}

// TestLimitHeaderShapes checks the shapes of the headers that the specification does not fix.
func TestLimitHeaderShapes(t *testing.T) {
	opts := emulator.Options{RateLimit: emulator.RateLimit{Burst: 2}, Shapes: emulator.Shapes{QuietLimits: true, RetryAfterDate: true}}
	bubble(t, opts, func(t *testing.T, _ *emulator.Portal, c *caller) {
		if h := c.get("/vpcs").want(200).header; h.Get("X-RateLimit-Remaining") != "" {
			t.Errorf("headers with success: %v", h)
		}
		h := c.get("/vpcs").want(429).header
		at, err := time.Parse(time.RFC1123, h.Get("Retry-After"))
		if err != nil || time.Until(at) != time.Second || h.Get("X-RateLimit-Limit") != "300" {
			t.Errorf("headers of the refusal: %v", h)
		}
	})
}
