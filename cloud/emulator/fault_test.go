// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func inject(t *testing.T, p *emulator.Portal, faults ...emulator.Fault) {
	t.Helper()
	for _, f := range faults {
		if err := p.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaultSelection checks which calls a fault strikes.
func TestFaultSelection(t *testing.T) {
	users := []emulator.User{{Email: "a@portal.example", Password: "p"}, {Email: "b@portal.example", Password: "p", Account: "b"}}
	for name, test := range map[string]struct {
		fault emulator.Fault
		want  string // four times GET /vpcs, GET /jobs/1, POST /networks, GET /vpcs of account b: x means struck
	}{
		"all":         {emulator.Fault{}, "xxxxxxx"},
		"method":      {emulator.Fault{Method: "POST"}, ".....x."},
		"path":        {emulator.Fault{Path: "/vpcs"}, "xxxx..x"},
		"template":    {emulator.Fault{Path: "/jobs/{job_id}"}, "....x.."},
		"wildcard":    {emulator.Fault{Path: "/jobs/*"}, "....x.."},
		"account":     {emulator.Fault{Account: "b"}, "......x"},
		"nth":         {emulator.Fault{Path: "/vpcs", Nth: 3}, "..xx..x"},
		"count":       {emulator.Fault{Count: 2}, "xx....."},
		"nth, count":  {emulator.Fault{Nth: 2, Count: 3}, ".xxx..."},
		"unlikely":    {emulator.Fault{Probability: 1e-9}, "......."},
		"certain":     {emulator.Fault{Probability: 1}, "xxxxxxx"},
		"other place": {emulator.Fault{Path: "/volumes/*"}, "......."},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPortal(t, emulator.Options{Users: users, BasePath: "/api"})
			a, b := loginAs(t, p, "a@portal.example", "p"), loginAs(t, p, "b@portal.example", "p")
			test.fault.Status = 503
			inject(t, p, test.fault)
			got := ""
			for _, r := range []*reply{
				a.get("/vpcs"), a.get("/vpcs"), a.get("/vpcs"), a.get("/vpcs"), a.get("/jobs/1"),
				a.post("/networks", `{"cidr":"10.0.0.0/24"}`), b.get("/vpcs"),
			} {
				got += mark(r.status == 503)
			}
			if got != test.want {
				t.Errorf("struck %s, want %s", got, test.want)
			}
			if hits := p.Faults()[0].Hits; hits != strings.Count(got, "x") {
				t.Errorf("the fault counts %d hits", hits)
			}
		})
	}
}

// TestProbability checks that the seed decides which calls are struck.
func TestProbability(t *testing.T) {
	run := func(seed int64) (got string) {
		p := newPortal(t, emulator.Options{Seed: seed, RateLimit: emulator.RateLimit{Burst: 1000}})
		inject(t, p, emulator.Fault{Status: 503, Path: "/vpcs", Probability: 0.3})
		c := login(t, p)
		for range 300 {
			got += mark(c.get("/vpcs").status == 503)
		}
		return got
	}
	first := run(5)
	if n := strings.Count(first, "x"); n < 60 || n > 120 {
		t.Errorf("%d of 300 calls were struck, want about 90", n)
	}
	if first != run(5) {
		t.Error("the same seed strikes other calls")
	}
}

// TestRefusals checks that a fault needs only a status or a code, and that the work is done only if the fault says after.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		fault  emulator.Fault
		status int
		code   string
		done   bool
	}{
		{emulator.Fault{Code: emulator.CodeResourceBusy}, 409, emulator.CodeResourceBusy, false},
		{emulator.Fault{Code: emulator.CodeInsufficientCapacity}, 503, emulator.CodeInsufficientCapacity, false},
		{emulator.Fault{Code: emulator.CodeQuotaExceeded}, 422, emulator.CodeQuotaExceeded, false},
		{emulator.Fault{Code: "BRAND_NEW"}, 500, "BRAND_NEW", false},
		{emulator.Fault{Status: 500}, 500, emulator.CodeInternalError, false},
		{emulator.Fault{Status: 503}, 503, emulator.CodeUnavailable, false},
		{emulator.Fault{Status: 429}, 429, emulator.CodeRateLimited, false},
		{emulator.Fault{Status: 409, Code: emulator.CodeInvalidParameter, Field: "cidr"}, 409, emulator.CodeInvalidParameter, false},
		{emulator.Fault{Status: 500, After: true}, 500, emulator.CodeInternalError, true},
		{emulator.Fault{Status: 503, RetryAfter: 90 * time.Second}, 503, emulator.CodeUnavailable, false},
	} {
		p := newPortal(t, emulator.Options{})
		c := login(t, p)
		inject(t, p, test.fault)
		r := c.post("/networks", `{"cidr":"10.0.0.0/24"}`).refused(test.status, test.code)
		if done := len(p.Networks()) == 1; done != test.done {
			t.Errorf("%+v: the work is done: %t", test.fault, done)
		}
		if got, _ := r.at("error", "field").(string); got != test.fault.Field {
			t.Errorf("%+v: field %q", test.fault, got)
		}
		if got := r.header.Get("Retry-After"); test.fault.RetryAfter > 0 && got != "90" {
			t.Errorf("Retry-After: %s", got)
		}
	}
}

// TestDelay checks that the answer is late, that the work is done even if no caller waits, and that the work is late if the fault says so.
func TestDelay(t *testing.T) {
	for _, after := range []bool{false, true} {
		bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
			inject(t, p, emulator.Fault{Delay: time.Minute, After: after, Path: "/networks"})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			start := time.Now()
			r := c.send(c.request("POST", "/networks", `{"cidr":"10.0.0.0/24"}`).WithContext(ctx))
			if !errors.Is(r.err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second {
				t.Errorf("after %s: %v", time.Since(start), r.err)
			}
			if done := len(p.Networks()) == 1; done != after {
				t.Errorf("half way the work is done: %t", done)
			}
			time.Sleep(time.Minute)
			if len(p.Networks()) != 1 {
				t.Error("the work was not done")
			}
			c.post("/networks", `{"cidr":"10.0.0.0/24"}`).want(201)
			if took := time.Since(start); took != 150*time.Second {
				t.Errorf("the second answer came after %s", took)
			}
		})
	}
}

// TestCut checks that the connection is cut before or after the work is done.
func TestCut(t *testing.T) {
	for _, after := range []bool{false, true} {
		p := newPortal(t, emulator.Options{})
		c := login(t, p)
		inject(t, p, emulator.Fault{Cut: true, After: after})
		r := c.post("/networks", `{"cidr":"10.0.0.0/24"}`)
		if !errors.Is(r.err, io.ErrUnexpectedEOF) || r.header != nil {
			t.Errorf("after %t: status %d, %v", after, r.status, r.err)
		}
		if done := len(p.Networks()) == 1; done != after {
			t.Errorf("after %t: the work is done: %t", after, done)
		}
		if got := p.RequestLog()[3].String(); got != "POST /networks → cut fault=fault-1" {
			t.Errorf("the request log has %s", got)
		}
	}
}

// TestSpoiledBodies checks the bodies that a caller reads instead of JSON after the work was done.
func TestSpoiledBodies(t *testing.T) {
	for body, check := range map[emulator.BodyFault]func(r *reply) bool{
		emulator.BodyTruncated:   func(r *reply) bool { return r.err == nil && len(r.raw) > 0 && !json.Valid(r.raw) },
		emulator.BodyInterrupted: func(r *reply) bool { return errors.Is(r.err, io.ErrUnexpectedEOF) && len(r.raw) > 0 },
		emulator.BodyHTML: func(r *reply) bool {
			return strings.HasPrefix(r.header.Get("Content-Type"), "text/html") && strings.Contains(string(r.raw), "<html>")
		},
		emulator.BodyEmpty:  func(r *reply) bool { return r.err == nil && len(r.raw) == 0 },
		emulator.BodyNull:   func(r *reply) bool { return r.err == nil && string(r.raw) == `{"data":null}` },
		emulator.BodySparse: func(r *reply) bool { return r.err == nil && r.at("data", "state") == "accepted" },
	} {
		t.Run(string(body), func(t *testing.T) {
			p := newPortal(t, emulator.Options{})
			c := login(t, p)
			inject(t, p, emulator.Fault{Body: body})
			if r := c.post("/networks", `{"cidr":"10.0.0.0/24"}`); r.status != 201 || !check(r) {
				t.Errorf("status %d, %q, %v", r.status, r.raw, r.err)
			}
			if len(p.Networks()) != 1 {
				t.Error("the work was not done")
			}
			inject(t, p, emulator.Fault{Status: 502})
			if r := c.get("/vpcs"); r.status != 502 || !check(r) {
				t.Errorf("of a refusal: status %d, %q, %v", r.status, r.raw, r.err)
			}
		})
	}
}

// TestJobFaults checks how jobs end, and which resources exist afterwards.
func TestJobFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault          emulator.Fault
		status         string
		code           any
		state, created emulator.ClusterState // state of the cluster after a scale, and after a create; empty if it does not exist
		size           int
	}{
		"failed":      {emulator.Fault{Job: emulator.JobFails, JobCode: emulator.CodeInsufficientCapacity}, "failed", emulator.CodeInsufficientCapacity, emulator.ClusterRunning, "", 1},
		"failed-late": {emulator.Fault{Job: emulator.JobFailsLate}, "failed", emulator.CodeInternalError, emulator.ClusterRunning, emulator.ClusterFailed, 3},
		"without-id":  {emulator.Fault{Job: emulator.JobWithoutID}, "succeeded", nil, emulator.ClusterRunning, emulator.ClusterRunning, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
				id := c.create(c.newCluster(1))
				inject(t, p, test.fault)
				c.scale(id, 3).has(test.status, "status").has(test.code, "error", "code").has(nil, "result", "kubernetesCluster")
				if got := p.Clusters()[0]; got.State != test.state || got.Size != test.size {
					t.Errorf("after scale: %s with %d workers", got.State, got.Size)
				}
				c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).has(test.status, "status")
				created := emulator.ClusterState("")
				if all := p.Clusters(); len(all) == 2 {
					created = all[1].State
				}
				if created != test.created {
					t.Errorf("after create: %q, want %q", created, test.created)
				}
			})
		})
	}
}

// TestForgottenJob checks that a forgotten job runs on, and that requests for it get 404.
func TestForgottenJob(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		inject(t, p, emulator.Fault{Job: emulator.JobForgotten, JobDelay: time.Minute, Path: "/kubernetes-clusters"})
		job := c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")
		c.get("/jobs/"+job).refused(404, emulator.CodeResourceNotFound)
		time.Sleep(time.Minute)
		if got := p.Clusters()[0].State; got != emulator.ClusterCreating {
			t.Errorf("before its time: %s", got)
		}
		time.Sleep(10 * time.Second)
		if got := p.Clusters()[0].State; got != emulator.ClusterRunning {
			t.Errorf("after its time: %s", got)
		}
	})
}

// TestClockSkew checks that the skew changes tokens and headers, for one call or for all.
func TestClockSkew(t *testing.T) {
	skew := func(t *testing.T, c *caller) time.Duration {
		t.Helper()
		date, err := http.ParseTime(c.get("/vpcs").header.Get("Date"))
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(date)
	}
	bubble(t, emulator.Options{ClockSkew: time.Hour}, func(t *testing.T, p *emulator.Portal, c *caller) {
		if expires, err := parse(t, c.token).GetExpirationTime(); err != nil || time.Until(expires.Time) != 9*time.Hour {
			t.Errorf("exp is %v, %v", expires, err)
		}
		if got := skew(t, c); got != time.Hour {
			t.Errorf("the clock is %s ahead", got)
		}
		inject(t, p, emulator.Fault{ClockSkew: 8 * time.Hour, Count: 1})
		c.get("/vpcs").refused(401, emulator.CodeInvalidToken)
		if got := skew(t, c); got != time.Hour {
			t.Errorf("the clock is %s ahead", got)
		}
	})
}

// TestFaultsThatCannotBe checks that invalid faults are refused.
func TestFaultsThatCannotBe(t *testing.T) {
	p := newPortal(t, emulator.Options{Faults: []emulator.Fault{{ID: "first", Cut: true}}})
	for _, f := range []emulator.Fault{
		{}, {Path: "/vpcs"}, {ID: "first", Cut: true}, {Cut: true, Path: "["}, {Status: 200}, {Status: 600}, {Cut: true, Nth: -1},
		{Cut: true, Probability: 2}, {Body: "garbled"}, {Job: "lost"}, {Delay: -1}, {OthersPerMinute: -1},
		{Scale: emulator.ScaleDown}, {Cut: true, Scale: "sideways"}, {Cut: true, For: -1}, {For: time.Minute}, {UpgradeStyle: "slowly"},
		{JobNodes: 1}, {Job: emulator.JobFails, JobNodes: 1}, {Job: emulator.JobFailsHalfway, JobNodes: -1},
		{Delay: 2, DelayUpTo: 1}, {Status: 200, Body: emulator.BodyNull, Code: "X"},
		// Parts without an effect.
		{Cut: true, Message: "m"}, {Cut: true, Field: "f"}, {Cut: true, RetryAfter: 1}, {Job: emulator.JobStuck, JobCode: "X"},
		{Job: emulator.JobForgotten, JobMessage: "m"},
		// Faults that no call can meet.
		{Cut: true, Path: "/vpcz"}, {Cut: true, Path: "vpcs"}, {Cut: true, Path: "/vpcs/"}, {Cut: true, Path: "/vpcs/*"}, {Cut: true, Path: "/api/vpcs"},
		{Cut: true, Method: "get"}, {Cut: true, Method: "PUT"}, {Cut: true, Method: "GET", Path: "/networks"}, {Cut: true, Account: "other"},
		{Cut: true, Path: "/vpcs", Scale: emulator.ScaleUp}, {Cut: true, Path: "/vpcs", State: emulator.ClusterAlert},
		{Job: emulator.JobFails, Method: "GET"}, {JobDelay: 1, Path: "/login"}, {LeaveNodes: true, Path: upgradeTemplate},
		{UpgradeStyle: emulator.UpgradeSurge, Path: scaleTemplate}, {Alert: true, Path: "/vpcs"}, {Drain: 1, Method: "DELETE"},
	} {
		if err := p.Inject(f); err == nil {
			t.Errorf("%+v was accepted", f)
		}
		if err := p.Inject(emulator.Fault{ID: "good", Cut: true}, f); err == nil {
			t.Errorf("%+v was accepted in a list", f)
		}
	}
	if n := len(p.Faults()); n != 1 {
		t.Errorf("%d faults", n)
	}
	if _, err := emulator.New(emulator.Options{Faults: []emulator.Fault{{}}}); err == nil {
		t.Error("New accepted a fault without effect")
	}
}

// TestParseFaults checks that printed faults can be parsed again, alone or in a list, and that invalid text is refused.
func TestParseFaults(t *testing.T) {
	want := []emulator.Fault{
		{
			ID: "a", Method: "POST", Path: "/vpcs", Account: "main", Scale: emulator.ScaleDown, Nth: 2, Count: 3, For: time.Hour, Probability: 0.5, After: true, Delay: 90 * time.Second, DelayUpTo: 2 * time.Minute,
			Status: 500, Code: "X", Message: "m", Field: "f", RetryAfter: time.Second, Cut: true, Body: emulator.BodyHTML,
			Job: emulator.JobStuck, JobCode: "Y", JobMessage: "n", JobDelay: time.Minute, LeaveNodes: true, RevokeToken: true,
			JobNodes: 2, UpgradeStyle: emulator.UpgradeSurge, State: emulator.ClusterAlert, Drain: time.Minute, LeaveCordoned: true, Alert: true,
			ClockSkew: -time.Hour, OthersPerMinute: 100,
		},
		{ID: "b", Cut: true},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := emulator.ParseFaults(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	one, err := emulator.ParseFaults([]byte(` {"delay":"1m30s","path":"/jobs/*"} `))
	if diff := cmp.Diff([]emulator.Fault{{Delay: 90 * time.Second, Path: "/jobs/*"}}, one); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []string{`{"dealy":"1s"}`, `{"delay":5}`, `{"for":"soon"}`, `{"for":60}`, `{"delay":"soon"}`, `[{"cut":true},]`, ``, `"cut"`} {
		if _, err := emulator.ParseFaults([]byte(bad)); err == nil && bad != "" {
			t.Errorf("%s was accepted", bad)
		}
	}
}
