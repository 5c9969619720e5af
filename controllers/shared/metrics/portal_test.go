// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	email    = "canary-4d1f@portal.example"
	password = "canary-password-9c3e"
)

// bench is a portal in this process, a client of it that is observed, and a registry with all of our metrics.
type bench struct {
	*testing.T
	portal   *emulator.Portal
	client   *cloud.Client
	accounts Accounts
	registry *prometheus.Registry
}

func newBench(t *testing.T, faults ...emulator.Fault) *bench {
	t.Helper()
	portal, err := emulator.New(emulator.Options{
		Seed: 1, Users: []emulator.User{{Email: email, Password: password}}, Faults: faults,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	b := &bench{T: t, portal: portal, registry: prometheus.NewPedanticRegistry()}
	b.client = b.newClient(password)
	for _, vector := range []interface{ Reset() }{requests, requestDuration, logins, wait, jobDuration} {
		vector.Reset()
	}
	if err := Register(b.registry, &b.accounts, &Operations{Elected: make(chan struct{})}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) newClient(password string) *cloud.Client {
	b.Helper()
	c, err := cloud.New(cloud.Config{
		BaseURL: "https://portal.example", Email: email, Password: password, Transport: b.portal.Transport(),
		Observe: ObserveCall, ObserveLogin: ObserveLogin,
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// samples fails unless these are the samples whose names begin with the prefix.
func (b *bench) samples(prefix, samples string) {
	b.Helper()
	var got, want []string
	for line := range strings.Lines(b.exposition()) {
		if sample, ours := strings.CutPrefix(strings.TrimSpace(line), namespace+"_"); ours && strings.HasPrefix(sample, prefix) {
			got = append(got, sample)
		}
	}
	for line := range strings.Lines(samples) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	if !slices.Equal(got, want) {
		b.Errorf("samples are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// exposition is what Prometheus reads.
func (b *bench) exposition() string {
	b.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		b.Fatal(answer.Body)
	}
	return answer.Body.String()
}

func TestPortalCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t,
			emulator.Fault{Path: "/kubernetes-versions", Nth: 2, Count: 1, Delay: 3 * time.Second, Status: 503},
			emulator.Fault{Path: "/kubernetes-versions", Nth: 3, Count: 1, Cut: true},
		)
		for range 3 {
			_, _ = b.client.KubernetesVersions(t.Context())
		}
		if _, err := b.client.ScaleCluster(t.Context(), "an-id-of-a-cluster", 2); !cloud.IsNotFound(err) {
			t.Fatal(err)
		}
		b.samples("portal_requests_total", `
			portal_requests_total{code="",endpoint="GET /kubernetes-versions",status="200"} 1
			portal_requests_total{code="",endpoint="GET /kubernetes-versions",status="503"} 1
			portal_requests_total{code="",endpoint="GET /kubernetes-versions",status="none"} 1
			portal_requests_total{code="",endpoint="POST /login",status="200"} 1
			portal_requests_total{code="RESOURCE_NOT_FOUND",endpoint="POST /kubernetes-clusters/{cluster_id}/scale",status="404"} 1
		`)
		b.samples("portal_request_duration_seconds_sum", `
			portal_request_duration_seconds_sum{endpoint="GET /kubernetes-versions"} 3
			portal_request_duration_seconds_sum{endpoint="POST /kubernetes-clusters/{cluster_id}/scale"} 0
			portal_request_duration_seconds_sum{endpoint="POST /login"} 0
		`)
	})
}

// TestWaits: requests that find the bucket empty are counted separately from those that did not wait, by class.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for range 44 { // and the login; five of the burst of 50 are left to others
			if _, err := b.client.KubernetesVersions(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.client.ScaleCluster(t.Context(), "a", 2)
		for cloud.IsRateLimited(err) {
			time.Sleep(100 * time.Millisecond)
			_, err = b.client.ScaleCluster(t.Context(), "a", 2)
		}
		b.samples(`rate_limit_wait_seconds_bucket{class="login",le="0.1"`, `rate_limit_wait_seconds_bucket{class="login",le="0.1"} 1`)
		b.samples(`rate_limit_wait_seconds_bucket{class="read",le="0.1"`, `rate_limit_wait_seconds_bucket{class="read",le="0.1"} 44`)
		b.samples(`rate_limit_wait_seconds_bucket{class="mutation",le="0.1"`, `rate_limit_wait_seconds_bucket{class="mutation",le="0.1"} 0`)
		b.samples(`rate_limit_wait_seconds_bucket{class="mutation",le="1"`, `rate_limit_wait_seconds_bucket{class="mutation",le="1"} 1`)
	})
}

func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t,
			emulator.Fault{Path: "/login", Nth: 3, Count: 1, Status: 503},
			emulator.Fault{Path: "/login", Nth: 4, Count: 1, Status: 429}, // comes to an end later
		)
		for _, c := range []*cloud.Client{b.client, b.newClient("wrong"), b.newClient(password), b.newClient(password)} {
			_, _ = c.KubernetesVersions(t.Context())
		}
		b.samples("portal_logins_total", `
			portal_logins_total{outcome="failed"} 1
			portal_logins_total{outcome="refused"} 1
			portal_logins_total{outcome="succeeded"} 1
		`)
	})
}
