// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// clientChecks check whether package cloud follows the specification's rules for clients. They run only at an emulator.
var clientChecks = []check{
	{name: "client/talks HTTPS only", run: func(p *probe) {
		p.aboutClients()
		config := p.config()
		config.BaseURL = "http://portal.example"
		if _, err := p.kit.open(config); !cloud.IsInvalid(err) {
			p.Errorf("plain HTTP: %v", err)
		}
	}},
	{name: "client/refreshes the token after 7 hours", run: refreshes},
	{name: "client/polls about every 5 seconds", run: func(p *probe) {
		p.aboutClients()
		if p.kit.pollAfter != 5*time.Second {
			p.Errorf("the next look is in %s", p.kit.pollAfter)
		}
	}},
	{name: "client/a finished job is done", run: func(p *probe) {
		p.aboutClients()
		for status, done := range map[cloud.JobStatus]bool{
			cloud.JobPending: false, cloud.JobRunning: false, cloud.JobSucceeded: true, cloud.JobFailed: true,
		} {
			if p.kit.done(status) != done {
				p.Errorf("%s: done is %t", status, !done)
			}
		}
	}},
	{name: "client/500 and 503 ask to try again", run: tryAgain},
	{name: "client/a full platform asks for time or another zone", run: func(p *probe) {
		p.strikes(emulator.Fault{Code: "INSUFFICIENT_CAPACITY"}, cloud.IsCapacity)
	}},
	{name: "client/an unknown code falls back to its status", run: unknownCodes},
	{name: "client/the code decides whatever the status", run: func(p *probe) {
		for _, status := range []int{400, 403, 404, 409, 422} {
			p.strikes(emulator.Fault{Code: "RESOURCE_BUSY", Status: status}, cloud.IsBusy)
			p.strikes(emulator.Fault{Code: "QUOTA_EXCEEDED", Status: status}, cloud.IsQuota)
		}
	}},
	{name: "client/decides by the code and not by the message", run: func(p *probe) {
		p.strikes(emulator.Fault{Code: "RESOURCE_BUSY", Message: "QUOTA_EXCEEDED: not found"}, cloud.IsBusy)
	}},
	{name: "client/learns a higher tier", run: higherTier},
	{name: "client/waits 60 seconds for an answer", run: func(p *probe) {
		p.waits(60*time.Second, "/vpcs", func(c *cloud.Client) error { _, err := c.VPCs(context.Background(), ""); return err })
	}},
	{name: "client/waits 30 seconds for a poll", run: func(p *probe) {
		p.waits(30*time.Second, "/jobs/{job_id}", func(c *cloud.Client) error {
			if _, err := c.Job(context.Background(), unknownID); !cloud.IsNotFound(err) {
				return err
			}
			return nil
		})
	}},
	{name: "client/sends nothing before Retry-After is over", run: respectsRetryAfter},
	{name: "client/backs off exponentially with jitter", run: backsOff},
	{name: "client/finds a VPC by its name", run: func(p *probe) {
		p.aboutClients()
		for name, want := range map[string]int{"default": 1, "missing": 0} {
			if found, err := p.client().VPCs(context.Background(), name); err != nil || len(found) != want {
				p.Errorf("%d VPCs are named %s, %v", len(found), name, err)
			}
		}
	}},
	{name: "client/a lookup before a creation makes no second VPC", run: looksFirst},
	{name: "client/a job is stuck after 30 minutes without progress", run: func(p *probe) {
		p.aboutClients()
		for minutes, stuck := range map[time.Duration]bool{0: false, 30: false, 31: true} {
			if p.kit.stuck(time.Now().Add(-minutes*time.Minute)) != stuck {
				p.Errorf("%d minutes after the last progress: stuck is %t", minutes, !stuck)
			}
		}
	}},
}

// clientKit is the client under test. A broken kit shows that the checks notice violations.
type clientKit struct {
	open      func(cloud.Config) (*cloud.Client, error)
	pollAfter time.Duration // for a job that has just been started
	done      func(cloud.JobStatus) bool
	stuck     func(progress time.Time) bool
}

func realKit() clientKit {
	now := time.Now()
	client, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "user@portal.example", Password: "password"})
	if err != nil {
		panic(err)
	}
	_, err = client.ReservePoll("cluster", ratelimit.RunningJob{Kind: "create", ID: "job", Started: now})
	at, _ := cloud.RetryAt(err)
	return clientKit{
		open:      cloud.New,
		pollAfter: at.Sub(now).Round(time.Second),
		done:      func(status cloud.JobStatus) bool { return cloud.Job{Status: status}.Done() },
		stuck:     cloud.IsStuck,
	}
}

func (p *probe) aboutClients() { p.hidden("is about clients, not about this portal") }

func (p *probe) config() cloud.Config {
	u := p.who(anyone)
	return cloud.Config{BaseURL: p.URL, Email: u.email, Password: u.password.reveal(), Transport: p.via}
}

func (p *probe) client() *cloud.Client {
	p.aboutClients()
	c, err := p.kit.open(p.config())
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// requests returns how many requests for a path the portal has received.
func (p *probe) requests(path string) int {
	count := 0
	for _, e := range p.books.RequestLog() {
		if e.IsRequest() && e.Path == path {
			count++
		}
	}
	return count
}

// looksFirst runs a script twice that needs a VPC: it reuses the one of the name, or else creates it.
func looksFirst(p *probe) {
	c, before := p.client(), len(p.books.VPCs())
	for range 2 {
		found, err := c.VPCs(context.Background(), "of a script")
		if err != nil {
			p.Fatal(err)
		}
		if len(found) > 0 {
			continue
		}
		job, err := c.CreateVPC(context.Background(), cloud.CreateVPCRequest{Name: "of a script"})
		for ; err == nil && !job.Done(); job, err = c.Job(context.Background(), job.ID) {
			time.Sleep(5 * time.Second)
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	if made := len(p.books.VPCs()) - before; made != 1 {
		p.Errorf("%d VPCs are created", made)
	}
}

func refreshes(p *probe) {
	c := p.client()
	for _, look := range []struct {
		after  time.Duration
		logins int
	}{{0, 1}, {7*time.Hour - time.Minute, 1}, {2 * time.Minute, 2}, {7*time.Hour - 2*time.Minute, 2}, {2 * time.Minute, 3}} {
		time.Sleep(look.after)
		if _, err := c.VPCs(context.Background(), ""); err != nil {
			p.Error(err)
		}
		if got := p.requests("/login"); got != look.logins {
			p.Errorf("after another %s: %d logins, want %d", look.after, got, look.logins)
		}
	}
	for _, e := range p.books.RequestLog() {
		if e.Code == "INVALID_TOKEN" {
			p.Errorf("a token was used for too long: %s", e)
		}
	}
}

// strikes makes the portal refuse a create call, and checks the class of the error.
func (p *probe) strikes(f emulator.Fault, is func(error) bool) {
	p.aboutClients()
	f.Path, f.Method, f.Count = "/kubernetes-clusters", "POST", 1
	p.fault(f)
	if _, err := p.client().CreateCluster(context.Background(), cloud.CreateClusterRequest{Name: "demo"}); !is(err) {
		p.Errorf("%s with status %d: %v", f.Code, f.Status, err)
	}
}

// tryAgain checks that the client repeats a read after a 500 or 503, and any request after a 503 in the documented shape, which means that
// the portal did nothing. After a 500 the client cannot know whether a create was carried out.
func tryAgain(p *probe) {
	p.strikes(emulator.Fault{Status: 503}, cloud.IsUnavailable)
	p.strikes(emulator.Fault{Status: 500}, cloud.IsUnknownOutcome)
	c := p.client()
	for _, status := range []int{500, 503} {
		p.fault(emulator.Fault{Status: status, Path: "/vpcs", Count: 1})
		if _, err := c.VPCs(context.Background(), ""); !cloud.IsUnavailable(err) {
			p.Errorf("status %d: %v", status, err)
		}
	}
}

func unknownCodes(p *probe) {
	for status, is := range map[int]func(error) bool{
		400: cloud.IsInvalid, 403: cloud.IsForbidden, 404: cloud.IsNotFound, 409: cloud.IsNotAllowed, 422: cloud.IsInvalid,
		429: cloud.IsRateLimited, 503: cloud.IsUnavailable,
	} {
		p.strikes(emulator.Fault{Code: "BRAND_NEW", Status: status}, is)
	}
}

// higherTier checks that twice the limit takes half the time.
func higherTier(p *probe) {
	p.aboutClients()
	took := map[int]time.Duration{300: p.requests650(300), 600: p.requests650(600)}
	if took[300] < 119*time.Second || took[600] > 85*time.Second {
		p.Errorf("650 requests take %v", took)
	}
}

// requests650 returns how long 650 requests take at a portal with that limit.
func (p *probe) requests650(limit int) time.Duration {
	portal, err := emulator.New(emulator.Options{RateLimit: emulator.RateLimit{PerMinute: limit}})
	if err != nil {
		p.Fatal(err)
	}
	defer portal.Close()
	email, password := portal.Credentials()
	way := portal.Transport()
	if p.through != nil {
		way = p.through(way)
	}
	c, err := p.kit.open(cloud.Config{BaseURL: portal.URL(), Email: email, Password: password, Transport: way, Wait: true})
	if err != nil {
		p.Fatal(err)
	}
	start := time.Now()
	for range 650 {
		if _, err := c.VPCs(context.Background(), ""); err != nil {
			p.Fatal(err)
		}
	}
	return time.Since(start)
}

// waits checks that the client waits for an answer until the timeout and no longer.
func (p *probe) waits(timeout time.Duration, path string, call func(*cloud.Client) error) {
	c := p.client()
	p.fault(emulator.Fault{ID: "late", Path: path, Delay: timeout - time.Second})
	if err := call(c); err != nil {
		p.Errorf("an answer after %s: %v", timeout-time.Second, err)
	}
	p.books.ClearFaults()
	p.fault(emulator.Fault{Path: path, Delay: timeout + time.Second})
	start := time.Now()
	if err := call(c); !cloud.IsUnavailable(err) || time.Since(start) != timeout {
		p.Errorf("no answer: after %s: %v", time.Since(start), err)
	}
}

func respectsRetryAfter(p *probe) {
	c := p.client()
	p.fault(emulator.Fault{Status: 429, RetryAfter: 20 * time.Second, Path: "/vpcs", Count: 1})
	start := time.Now()
	for time.Since(start) < time.Minute {
		before := p.requests("/vpcs")
		_, err := c.VPCs(context.Background(), "")
		if sent := p.requests("/vpcs") > before; sent && before > 0 && time.Since(start) < 20*time.Second {
			p.Fatalf("a request %s after the 429", time.Since(start))
		}
		if err == nil {
			return
		}
		if at, ok := cloud.RetryAt(err); !cloud.IsRateLimited(err) || !ok || at.Sub(start) < 20*time.Second {
			p.Fatalf("%v, RetryAt is in %s", err, at.Sub(start))
		}
		time.Sleep(time.Second)
	}
	p.Error("the client still waits after a minute")
}

// backsOff checks that the pauses double while the portal answers 429, and that the pauses of two clients differ.
func backsOff(p *probe) {
	p.aboutClients()
	p.fault(emulator.Fault{Status: 429, Path: "/vpcs"})
	one, two := p.pauses(1, 5), p.pauses(2, 5)
	alike := true
	for i := range one {
		if least := time.Second << i; one[i] < least || one[i] > 2*least {
			p.Errorf("pause %d is %s", i, one[i])
		}
		alike = alike && one[i] == two[i]
	}
	if alike {
		p.Errorf("without jitter: %v", one)
	}
}

// pauses returns the pauses of a new client between its requests while the portal answers all of them with 429.
func (p *probe) pauses(seed uint64, n int) (out []time.Duration) {
	config := p.config()
	config.Limiter = ratelimit.NewLimiter(ratelimit.Options{Rand: rand.New(rand.NewPCG(seed, seed))})
	c, err := p.kit.open(config)
	if err != nil {
		p.Fatal(err)
	}
	var last time.Time
	for len(out) < n {
		before := p.requests("/vpcs")
		_, err := c.VPCs(context.Background(), "")
		if p.requests("/vpcs") > before {
			if !last.IsZero() {
				out = append(out, time.Since(last))
			}
			last = time.Now()
		}
		at, ok := cloud.RetryAt(err)
		if !ok {
			p.Fatalf("no RetryAt: %v", err)
		}
		time.Sleep(time.Until(at))
	}
	return out
}
