// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestBudgets checks that reading an account's budget costs no token, and that other users of the account reduce the budget.
func TestBudgets(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		for i := range 10 {
			left, err := strconv.Atoi(c.get("/vpcs").want(200).header.Get("X-RateLimit-Remaining"))
			must(t, err)
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
		inject(t, p, emulator.Fault{OthersPerMinute: 6000})
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

// TestRefill checks the headers of a refusal, and that the account gets a token back every 200 ms, up to the burst. conformance counts the
// requests that are admitted, and checks who shares the limit.
func TestRefill(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		for range 49 { // after the login
			c.get("/vpcs").want(200)
		}
		r := c.get("/vpcs").refused(429, emulator.CodeRateLimited)
		for header, want := range map[string]string{
			"X-RateLimit-Limit": "300", "X-RateLimit-Remaining": "0", "Retry-After": "1",
			"X-RateLimit-Reset": strconv.FormatInt(time.Now().Add(10*time.Second).Unix(), 10), // 50 × 200 ms
		} {
			if got := r.header.Get(header); got != want {
				t.Errorf("%s: %s, want %s", header, got, want)
			}
		}
		time.Sleep(200*time.Millisecond - time.Nanosecond)
		c.get("/vpcs").refused(429, emulator.CodeRateLimited)
		time.Sleep(time.Nanosecond)
		c.get("/vpcs").want(200)
		time.Sleep(time.Hour)
		if got := p.Budgets()[0].Remaining; got != 50 {
			t.Errorf("after an hour %d are left", got)
		}
	})
}
