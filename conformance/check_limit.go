// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

var limitChecks = []check{
	{name: "limits/a burst of 50", run: func(p *probe) {
		me := p.rested()
		if got := me.admitted(2 * p.Tier.Burst); got != p.Tier.Burst {
			p.Errorf("%d requests are admitted at once, want %d", got, p.Tier.Burst)
		}
	}},
	{name: "limits/300 requests a minute", run: perMinuteRate},
	{name: "limits/429 with RATE_LIMITED beyond the limit", run: func(p *probe) { p.refusedByLimit() }},
	{name: "limits/429 carries X-RateLimit-Limit", run: func(p *probe) {
		if got := p.refusedByLimit().number("X-RateLimit-Limit"); got != p.Tier.PerMinute {
			p.Errorf("X-RateLimit-Limit is %d", got)
		}
	}},
	{name: "limits/429 carries X-RateLimit-Remaining", run: func(p *probe) {
		p.refusedByLimit().number("X-RateLimit-Remaining") // 0 of the burst. Something may remain of the minute
	}},
	{name: "limits/429 carries X-RateLimit-Reset", run: func(p *probe) {
		reset := time.Unix(int64(p.refusedByLimit().number("X-RateLimit-Reset")), 0)
		if in := time.Until(reset); in < -2*time.Second || in > 24*time.Hour {
			p.Errorf("X-RateLimit-Reset is in %s", in)
		}
	}},
	{name: "limits/429 carries Retry-After", run: func(p *probe) {
		if got := p.refusedByLimit().number("Retry-After"); got > 120 {
			p.Errorf("Retry-After is %d", got)
		}
	}},
	{name: "limits/Retry-After is enough", run: func(p *probe) {
		if p.neighbours {
			p.skip("others use the account, and may take what comes back")
		}
		a := p.refusedByLimit()
		time.Sleep(time.Duration(a.number("Retry-After")) * time.Second)
		p.me().once("GET", "/vpcs", "", nil).want(http.StatusOK)
	}},
	{name: "limits/all users and endpoints of an account share the limit", run: func(p *probe) {
		other := p.as(colleague)
		if p.me().get("/vpcs").took > 100*time.Millisecond {
			p.skip("the portal answers too slowly to keep the limit used up")
		}
		p.refusedByLimit()
		other.once("GET", "/vpcs", "", nil).want(http.StatusTooManyRequests)
		other.once("GET", "/jobs/"+unknownID, "", nil).want(http.StatusTooManyRequests)
		p.me().once("DELETE", "/volumes/"+unknownID, "", nil).want(http.StatusTooManyRequests)
	}},
	{name: "limits/another account has its own", run: func(p *probe) {
		foreign := p.as(stranger)
		p.refusedByLimit()
		if a := foreign.once("GET", "/vpcs", "", nil); a.status == http.StatusTooManyRequests {
			p.Errorf("%s: status %d for a user of another account", a.what, a.status)
		}
	}},
}

// rested returns a probe of the first user, minutes after the last request of the account, so that the whole burst is available.
func (p *probe) rested() *probe {
	if !p.virtual || p.neighbours {
		p.skip("counting exactly needs an account that only the checks use")
	}
	me := p.me()
	if me.get("/kubernetes-versions").took > 0 {
		p.skip("the portal answers too slowly to count exactly")
	}
	time.Sleep(2 * time.Minute)
	return me
}

// admitted sends requests without a pause, and returns how many the limit did not refuse.
func (p *probe) admitted(requests int) int {
	count := 0
	for range requests {
		if p.once("GET", "/kubernetes-versions", "", nil).status != http.StatusTooManyRequests {
			count++
		}
	}
	return count
}

// perMinuteRate uses up the burst, and then counts the admitted requests of a minute in which more are sent.
func perMinuteRate(p *probe) {
	me := p.rested()
	me.admitted(p.Tier.Burst)
	count := 0
	for range 60 * 20 {
		time.Sleep(time.Second / 20)
		count += me.admitted(1)
	}
	if count != p.Tier.PerMinute {
		p.Errorf("%d requests are admitted in a minute, want %d", count, p.Tier.PerMinute)
	}
}

// refusedByLimit uses up the account's limit and returns the first refusal.
func (p *probe) refusedByLimit() *answer {
	if !p.Exhaust {
		p.skip("uses up the rate limit of the account: needs --exhaust")
	}
	me := p.me()
	for range 10 * p.Tier.PerMinute {
		if a := p.crowd(me); a != nil {
			return a.want(http.StatusTooManyRequests).refused("RATE_LIMITED")
		}
	}
	p.Fatalf("%d requests in a row were admitted", 10*p.Tier.PerMinute)
	return nil
}

// crowd sends enough concurrent requests to use up the limit of a portal that answers slowly, and returns the first refused answer.
func (p *probe) crowd(me *probe) *answer {
	first := me.once("GET", "/kubernetes-versions", "", nil)
	if first.status != http.StatusOK && !first.overloaded() {
		return first
	}
	if first.took < 100*time.Millisecond {
		return nil
	}
	answers := make([]*answer, 2*p.Tier.Burst)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = me.once("GET", "/kubernetes-versions", "", nil) })
	}
	group.Wait()
	for _, a := range answers {
		if a != nil && a.status != http.StatusOK && !a.overloaded() {
			return a
		}
	}
	return nil
}

// number returns the value of a header that must be a number.
func (a *answer) number(header string) int {
	n, err := strconv.Atoi(a.header.Get(header))
	if err != nil || n < 0 {
		a.Errorf("%s: %s is %q", a.what, header, a.header.Get(header))
	}
	return n
}
