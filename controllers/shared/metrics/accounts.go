// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// accountIdle is how long an identity counts as in use after its last use. Its client is kept for the same time (cloud.Pool).
const accountIdle = time.Hour

var (
	accountInfo = newDesc("account_info",
		"Always 1. The labels name an identity Secret (namespace/name) and its portal account, which has the name of its first identity.",
		"account", "identity", "portal")
	accountWaiting = newDesc("account_waiting_requests",
		"Requests waiting for the account's rate limit, by class: mutation, creation, read, poll or login.", "account", "class")
)

// ofAccount are the metrics with one value for each account.
var ofAccount = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(ratelimit.Stats) float64
}{
	{newDesc("account_limit_requests_per_second", "Requests per second that the portal allows the account, according to its answers.", "account"),
		prometheus.GaugeValue, func(s ratelimit.Stats) float64 { return float64(s.Limit) / time.Minute.Seconds() }},
	{newDesc("account_share_ratio", "Share of the limit that this manager uses at most: --account-share, or less after the portal refused requests, "+
		"because others use the account too.", "account"),
		prometheus.GaugeValue, func(s ratelimit.Stats) float64 { return s.Share }},
	{newDesc("account_tokens", "Requests that could be sent now. If it is 0 or less, requests wait.", "account"),
		prometheus.GaugeValue, func(s ratelimit.Stats) float64 { return s.Tokens }},
	{newDesc("account_requests_total", "Requests sent under the account.", "account"),
		prometheus.CounterValue, func(s ratelimit.Stats) float64 { return float64(s.Sent) }},
	{newDesc("account_rate_limited_total", "Requests that the portal refused because of the account's rate limit.", "account"),
		prometheus.CounterValue, func(s ratelimit.Stats) float64 { return float64(s.Limited) }},
	{newDesc("account_requests_in_flight", "Requests that the portal has not answered yet.", "account"),
		prometheus.GaugeValue, func(s ratelimit.Stats) float64 { return float64(s.InFlight) }},
	{newDesc("account_closed", "1 while no request is sent because the portal refused one for the rate limit, else 0.", "account"),
		prometheus.GaugeValue, closed},
}

// Accounts are the portal accounts in use, and collect the state of their rate limits. The zero value is ready to use.
type Accounts struct {
	mu   sync.Mutex
	uses map[string]use // by identity
}

// use of an account under an identity.
type use struct {
	portal  string
	limiter func() *ratelimit.Limiter
	at      time.Time
}

// Use records that the identity (namespace/name of its Secret) uses an account now. The account's limiter is looked up each
// time, because the first login changes it.
func (a *Accounts) Use(identity, baseURL string, limiter func() *ratelimit.Limiter) {
	portal := ""
	if u, err := url.Parse(baseURL); err == nil {
		portal = u.Host // and no more of it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uses == nil {
		a.uses = map[string]use{}
	}
	a.uses[identity] = use{portal: portal, limiter: limiter, at: time.Now()}
}

// Drop records that the identity is not used any more.
func (a *Accounts) Drop(identity string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.uses, identity)
}

// current returns the uses, without those that have ended without a call of Drop.
func (a *Accounts) current() map[string]use {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.uses, func(_ string, u use) bool { return time.Since(u.at) > accountIdle })
	return maps.Clone(a.uses)
}

// Describe implements prometheus.Collector.
func (a *Accounts) Describe(ch chan<- *prometheus.Desc) {
	ch <- accountInfo
	ch <- accountWaiting
	for _, m := range ofAccount {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (a *Accounts) Collect(ch chan<- prometheus.Metric) {
	uses := a.current()
	limiters, names := map[string]*ratelimit.Limiter{}, map[*ratelimit.Limiter]string{}
	for identity, use := range uses {
		limiter := use.limiter()
		limiters[identity] = limiter
		if name, named := names[limiter]; !named || identity < name {
			names[limiter] = identity
		}
	}
	for identity, use := range uses {
		ch <- gauge(accountInfo, 1, names[limiters[identity]], identity, use.portal)
	}
	for limiter, name := range names {
		stats := limiter.Stats()
		for _, m := range ofAccount {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(stats), name)
		}
		for class, waiting := range stats.Waiting {
			ch <- gauge(accountWaiting, float64(waiting), name, class.String())
		}
	}
}

func closed(s ratelimit.Stats) float64 {
	if time.Now().Before(s.ClosedTo) {
		return 1
	}
	return 0
}
