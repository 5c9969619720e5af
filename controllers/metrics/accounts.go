// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// accountIdle is how long an identity counts as in use after its last use; as long as its client is kept (cloud.Pool).
const accountIdle = time.Hour

var (
	accountInfo = newDesc("account_info",
		"Always 1: the identity Secret (namespace/name) uses this portal account, which is named by the first of its identities.",
		"account", "identity", "portal")
	accountLimit = newDesc("account_limit_requests_per_second",
		"Requests that the portal allows the account, as its answers say.", "account")
	accountShare = newDesc("account_share_ratio",
		"Part of the limit that this manager takes at most: less than 1 after the portal refused requests, since others use the account too.", "account")
	accountTokens = newDesc("account_tokens",
		"Requests that could be sent at once, now; none or fewer: requests wait.", "account")
	accountRequests = newDesc("account_requests_total",
		"Requests sent under the account.", "account")
	accountLimited = newDesc("account_rate_limited_total",
		"Requests that the portal refused because of the account's rate limit.", "account")
	accountWaiting = newDesc("account_waiting_requests",
		"Requests that wait for the account's rate limit, by class: mutation, read, poll or login.", "account", "class")
	accountInFlight = newDesc("account_requests_in_flight",
		"Requests whose answer has not come yet.", "account")
	accountClosed = newDesc("account_closed",
		"1 while nothing is sent because the portal refused a request for the rate limit, else 0.", "account")
)

// Accounts are the portal accounts in use, and collect the state of their rate limits. The zero value is ready to use.
type Accounts struct {
	mu   sync.Mutex
	uses map[string]use // by identity
}

// use of an account under an identity.
type use struct {
	portal   string
	governor *cloud.Governor
	at       time.Time
}

// Use notes that the identity (namespace/name of its Secret) uses the governor's account now.
func (a *Accounts) Use(identity, baseURL string, governor *cloud.Governor) {
	portal := ""
	if u, err := url.Parse(baseURL); err == nil {
		portal = u.Host // and no more of it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uses == nil {
		a.uses = map[string]use{}
	}
	a.uses[identity] = use{portal: portal, governor: governor, at: time.Now()}
}

// Drop notes that the identity is not used any more.
func (a *Accounts) Drop(identity string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.uses, identity)
}

// Describe implements prometheus.Collector.
func (a *Accounts) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		accountInfo, accountLimit, accountShare, accountTokens, accountRequests, accountLimited, accountWaiting, accountInFlight, accountClosed,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (a *Accounts) Collect(ch chan<- prometheus.Metric) {
	uses := a.current()
	names := map[*cloud.Governor]string{}
	for identity, use := range uses {
		if name, named := names[use.governor]; !named || identity < name {
			names[use.governor] = identity
		}
	}
	for identity, use := range uses {
		ch <- gauge(accountInfo, 1, names[use.governor], identity, use.portal)
	}
	for governor, name := range names {
		collect(ch, name, governor.Stats())
	}
}

// current are the uses, without those that have ended without a word.
func (a *Accounts) current() map[string]use {
	a.mu.Lock()
	defer a.mu.Unlock()
	uses := map[string]use{}
	for identity, use := range a.uses {
		if time.Since(use.at) > accountIdle {
			delete(a.uses, identity)
			continue
		}
		uses[identity] = use
	}
	return uses
}

func collect(ch chan<- prometheus.Metric, account string, stats cloud.GovernorStats) {
	closed := 0.0
	if time.Now().Before(stats.ClosedTo) {
		closed = 1
	}
	ch <- gauge(accountLimit, float64(stats.Limit)/time.Minute.Seconds(), account)
	ch <- gauge(accountShare, stats.Share, account)
	ch <- gauge(accountTokens, stats.Tokens, account)
	ch <- prometheus.MustNewConstMetric(accountRequests, prometheus.CounterValue, float64(stats.Sent), account)
	ch <- prometheus.MustNewConstMetric(accountLimited, prometheus.CounterValue, float64(stats.Limited), account)
	for class, waiting := range stats.Waiting {
		ch <- gauge(accountWaiting, float64(waiting), account, class.String())
	}
	ch <- gauge(accountInFlight, float64(stats.InFlight), account)
	ch <- gauge(accountClosed, closed, account)
}
