// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

const baseURL = "https://somebody:" + password + "@portal.example:8443/api?token=" + password

// TestAccount checks how much of an account was used and how much is left.
func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, emulator.Fault{Path: "/kubernetes-versions", Nth: 5, Count: 1, Status: 429, RetryAfter: 10 * time.Second})
		b.accounts.Use("team-a/portal", baseURL, b.client.Limiter)
		for range 5 {
			_, _ = b.client.KubernetesVersions(t.Context())
		}
		for range 3 { // wait, with one place for all
			if _, err := b.client.Job(t.Context(), "job"); !cloud.IsRateLimited(err) {
				t.Fatal(err)
			}
		}
		b.samples("account_", `
			account_closed{account="team-a/portal"} 1
			account_info{account="team-a/portal",identity="team-a/portal",portal="portal.example:8443"} 1
			account_limit_requests_per_second{account="team-a/portal"} 5
			account_rate_limited_total{account="team-a/portal"} 1
			account_requests_in_flight{account="team-a/portal"} 0
			account_requests_total{account="team-a/portal"} 6
			account_share_ratio{account="team-a/portal"} 0.7
			account_tokens{account="team-a/portal"} 1
			account_waiting_requests{account="team-a/portal",class="creation"} 0
			account_waiting_requests{account="team-a/portal",class="login"} 0
			account_waiting_requests{account="team-a/portal",class="mutation"} 0
			account_waiting_requests{account="team-a/portal",class="poll"} 1
			account_waiting_requests{account="team-a/portal",class="read"} 0
		`)
		time.Sleep(15 * time.Second)
		b.samples("account_closed", `account_closed{account="team-a/portal"} 0`)
	})
}

// TestIdentitiesShareAnAccount: an account has its series once, under the first of its identities, and the info metric names the
// others. An identity that goes away takes its series with it.
func TestIdentitiesShareAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		limiter := ratelimit.NewLimiter(ratelimit.Options{Limit: 600})
		other := func() *ratelimit.Limiter { return limiter }
		b.accounts.Use("team-b/portal", baseURL, b.client.Limiter)
		b.accounts.Use("team-a/portal", baseURL, b.client.Limiter)
		b.accounts.Use("team-c/portal", "https://elsewhere.example", other)
		b.samples("account_info", `
			account_info{account="team-a/portal",identity="team-a/portal",portal="portal.example:8443"} 1
			account_info{account="team-a/portal",identity="team-b/portal",portal="portal.example:8443"} 1
			account_info{account="team-c/portal",identity="team-c/portal",portal="elsewhere.example"} 1
		`)
		b.samples("account_limit", `
			account_limit_requests_per_second{account="team-a/portal"} 5
			account_limit_requests_per_second{account="team-c/portal"} 10
		`)

		b.accounts.Drop("team-a/portal")
		b.samples("account_limit", `
			account_limit_requests_per_second{account="team-b/portal"} 5
			account_limit_requests_per_second{account="team-c/portal"} 10
		`)
		b.accounts.Use("team-b/portal", "https://elsewhere.example", other) // other credentials in the same Secret
		b.samples("account_limit", `account_limit_requests_per_second{account="team-b/portal"} 10`)
		time.Sleep(accountIdle - time.Minute)
		b.accounts.Use("team-c/portal", "https://elsewhere.example", other)
		time.Sleep(2 * time.Minute)
		b.samples("account_info", `account_info{account="team-c/portal",identity="team-c/portal",portal="elsewhere.example"} 1`)
		time.Sleep(accountIdle)
		b.samples("account_", "")
	})
}

// TestCanary: Prometheus reads neither e-mail addresses nor passwords, and the names follow Prometheus's conventions.
func TestCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, emulator.Fault{Path: "/kubernetes-versions", Count: 1, Status: 400, Code: "CODE_" + password, Message: password})
		b.accounts.Use("team-a/portal", baseURL, b.client.Limiter)
		_, _ = b.client.KubernetesVersions(t.Context())
		_, _ = b.client.Job(t.Context(), password)
		_, _ = b.newClient("wrong-" + password).KubernetesVersions(t.Context())
		_ = b.client.RequestPasswordReset(t.Context(), email)
		text := b.exposition()
		for _, secret := range []string{password, email, "canary", "somebody"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in\n%s", secret, text)
			}
		}
		if !strings.Contains(text, "account_info") || !strings.Contains(text, `status="400"`) {
			t.Errorf("something is missing in\n%s", text)
		}
		problems, err := testutil.GatherAndLint(b.registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%+v, %v", problems, err)
		}
	})
}
