// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		must(t, p.Inject(f))
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
			p := newPortal(t, emulator.Options{Users: users, BasePath: "/api/"})
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

// TestClockSkew checks that the skew changes tokens and headers, for one call or for all.
func TestClockSkew(t *testing.T) {
	skew := func(t *testing.T, c *caller) time.Duration {
		t.Helper()
		date, err := http.ParseTime(c.get("/vpcs").header.Get("Date"))
		must(t, err)
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
	must(t, err)
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

// told is what a caller sees of an answer: its status, and the error or what is wrong with the body.
func (r *reply) told() string {
	switch text := string(r.raw); {
	case errors.Is(r.err, io.ErrUnexpectedEOF) && r.header == nil:
		return "cut"
	case errors.Is(r.err, io.ErrUnexpectedEOF) && text != "":
		return fmt.Sprintf("%d, cut in the body", r.status)
	case r.err != nil:
		return r.err.Error()
	case strings.HasPrefix(r.header.Get("Content-Type"), "text/html"):
		return fmt.Sprintf("%d, a page %t", r.status, strings.Contains(text, "<html>"))
	case text != "" && !json.Valid(r.raw):
		return fmt.Sprintf("%d, truncated", r.status)
	case r.at("error") == nil:
		return fmt.Sprintf("%d %s", r.status, text)
	}
	field, _ := r.at("error", "field").(string)
	return strings.TrimSpace(fmt.Sprintf("%d %s %s%s", r.status, r.text("error", "code"), field, r.header.Get("Retry-After")))
}

// TestAnswersOfFaults checks what a caller gets in place of the portal's answer, and whether the work was done.
func TestAnswersOfFaults(t *testing.T) {
	for _, test := range []struct {
		fault emulator.Fault
		want  string
		done  bool
	}{
		{emulator.Fault{Code: emulator.CodeResourceBusy}, "409 RESOURCE_BUSY", false},
		{emulator.Fault{Code: "BRAND_NEW"}, "500 BRAND_NEW", false},
		{emulator.Fault{Status: 500}, "500 INTERNAL_ERROR", false},
		{emulator.Fault{Status: 503, RetryAfter: 90 * time.Second}, "503 SERVICE_UNAVAILABLE 90", false},
		{emulator.Fault{Status: 409, Code: emulator.CodeInvalidParameter, Field: "cidr"}, "409 INVALID_PARAMETER cidr", false},
		{emulator.Fault{Status: 500, After: true}, "500 INTERNAL_ERROR", true},
		{emulator.Fault{Cut: true}, "cut", false},
		{emulator.Fault{Cut: true, After: true}, "cut", true},
		{emulator.Fault{Body: emulator.BodyTruncated}, "201, truncated", true},
		{emulator.Fault{Body: emulator.BodyInterrupted}, "201, cut in the body", true},
		{emulator.Fault{Body: emulator.BodyHTML}, "201, a page true", true},
		{emulator.Fault{Body: emulator.BodyEmpty}, "201 ", true},
		{emulator.Fault{Body: emulator.BodyNull}, `201 {"data":null}`, true},
		{emulator.Fault{Body: emulator.BodySparse}, `201 {"data":{"state":"accepted"}}`, true},
		{emulator.Fault{Status: 502, Body: emulator.BodyTruncated}, "502, truncated", false},
	} {
		p := newPortal(t, emulator.Options{})
		c := login(t, p)
		inject(t, p, test.fault)
		if got := c.post("/networks", `{"cidr":"10.0.0.0/24"}`).told(); got != test.want || len(p.Networks()) == 1 != test.done {
			t.Errorf("%+v: %s, with %d networks; want %s", test.fault, got, len(p.Networks()), test.want)
		}
	}
}

// TestFailedJobs checks how much of its work a job has done that fails, that a failed creation leaves no cluster that works, and that another job
// does the rest.
func TestFailedJobs(t *testing.T) {
	for name, test := range map[string]struct {
		job             emulator.JobFault
		nodes, from, to int
		want            int // workers after the job
	}{
		"nothing":             {emulator.JobFails, 0, 1, 3, 1},
		"everything":          {emulator.JobFailsLate, 0, 1, 3, 3},
		"half of them":        {emulator.JobFailsHalfway, 0, 6, 2, 4},
		"one of them":         {emulator.JobFailsHalfway, 1, 6, 3, 5},
		"half of one":         {emulator.JobFailsHalfway, 0, 3, 2, 3},
		"all of them":         {emulator.JobFailsHalfway, 9, 6, 3, 3},
		"of those to come":    {emulator.JobFailsHalfway, 2, 1, 6, 3},
		"nothing is to do":    {emulator.JobFailsHalfway, 1, 3, 3, 3},
		"half of two to come": {emulator.JobFailsHalfway, 0, 1, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
				id := c.create(c.newCluster(test.from))
				inject(t, p, emulator.Fault{Job: test.job, JobNodes: test.nodes, JobCode: "IMAGE_BUSY", JobMessage: "an image is being copied"})
				c.scale(id, test.to).has("failed", "status").has("IMAGE_BUSY", "error", "code").has(nil, "result")
				if got := p.Clusters()[0]; got.Size != test.want || len(workers(p)) != test.want || got.State != emulator.ClusterRunning {
					t.Errorf("%s with %d workers, %d nodes; want %d", got.State, got.Size, len(workers(p)), test.want)
				}
				c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).has("failed", "status")
				if all := p.Clusters(); len(all) > 1 && all[1].State != emulator.ClusterFailed || len(all) == 1 != (test.job == emulator.JobFails) {
					t.Errorf("after a creation: %+v", all)
				}
				p.ClearFaults()
				c.scale(id, test.to).has("succeeded", "status")
				if got := len(workers(p)); got != test.to {
					t.Errorf("in the end %d workers", got)
				}
			})
		})
	}
}
