// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestShapes checks each alternative answer that the specification allows, and its default.
func TestShapes(t *testing.T) {
	network := `{"cidr":"10.0.0.0/24"}`
	for name, test := range map[string]struct {
		shapes emulator.Shapes
		check  func(c *caller)
	}{
		"defaults": {emulator.Shapes{}, func(c *caller) {
			c.get("/kubernetes-versions").has("v1.34.9", "versions", 0, "semanticVersion").text("versions", 0, "state")
			c.post("/networks", network).want(201).text("network", "id")
		}},
		"bare lists": {emulator.Shapes{BareLists: true}, func(c *caller) {
			c.get("/kubernetes-versions").want(200).text(0, "id")
			c.get("/vpcs").want(200).text(0, "id")
			c.get("/instances").want(200).has(nil, 0)
		}},
		"bare versions": {emulator.Shapes{BareVersions: true}, func(c *caller) { c.get("/kubernetes-versions").has("1.34.9", "versions", 0, "semanticVersion") }},
		"version build": {emulator.Shapes{VersionBuild: "portal.1"}, func(c *caller) {
			c.get("/kubernetes-versions").has("v1.34.9+portal.1", "versions", 0, "semanticVersion")
		}},
		"numbers as text": {emulator.Shapes{NumbersAsText: true}, func(c *caller) {
			c.wait(c.post("/kubernetes-clusters", c.newCluster(3).String()).want(202).text("jobId")).has("3", "result", "kubernetesCluster", "size")
		}},
		"flat ids":    {emulator.Shapes{CreatedID: emulator.IDFlat}, func(c *caller) { c.post("/networks", network).want(201).text("id") }},
		"network 200": {emulator.Shapes{NetworkStatus: http.StatusOK}, func(c *caller) { c.post("/networks", network).want(200).text("network", "id") }},
		"network 202, nested": {emulator.Shapes{NetworkStatus: 202}, func(c *caller) {
			c.wait(c.post("/networks", network).want(202).text("jobId")).text("result", "network", "id")
		}},
		"network 202, flat": {emulator.Shapes{NetworkStatus: 202, CreatedID: emulator.IDFlat}, func(c *caller) {
			c.wait(c.post("/networks", network).want(202).text("jobId")).text("result", "id")
		}},
		"no id, by a fault": {emulator.Shapes{}, func(c *caller) {
			inject(c.t, c.p, emulator.Fault{Job: emulator.JobWithoutID})
			c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).has("succeeded", "status").has(nil, "result", "kubernetesCluster")
		}},
		"cluster, flat": {emulator.Shapes{CreatedID: emulator.IDFlat}, func(c *caller) {
			c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).text("result", "id")
		}},
		"job error": {emulator.Shapes{JobError: emulator.JobErrorString}, func(c *caller) {
			inject(c.t, c.p, emulator.Fault{Job: emulator.JobFails, JobCode: "C", JobMessage: "m"})
			c.wait(c.post("/vpcs", `{"name":"v"}`).want(202).text("jobId")).has("C: m", "error")
		}},
		"job error, whole": {emulator.Shapes{JobError: emulator.JobErrorWhole}, func(c *caller) {
			inject(c.t, c.p, emulator.Fault{Job: emulator.JobFails, JobCode: "C", JobMessage: "m"})
			c.wait(c.post("/vpcs", `{"name":"v"}`).want(202).text("jobId")).has("C", "error", "error", "code")
		}},
		"ids beside others": {emulator.Shapes{CreatedID: emulator.IDBeside}, func(c *caller) {
			c.post("/networks", network).want(201).has("owner-1", "owner", "id").text("network", "id")
		}},
		"ids deeper": {emulator.Shapes{CreatedID: emulator.IDDeep}, func(c *caller) {
			c.post("/networks", network).want(201).text("resource", "network", "id")
		}},
		"volume at once": {emulator.Shapes{VolumeStatus: 204}, func(c *caller) { c.delete("/volumes/" + c.p.AddVolume(emulator.Volume{})).want(204) }},
		"volume by job": {emulator.Shapes{VolumeStatus: 202}, func(c *caller) {
			id := c.p.AddVolume(emulator.Volume{})
			c.wait(c.delete("/volumes/"+id).want(202).text("jobId")).has("succeeded", "status")
			if left := len(c.p.Volumes()); left != 0 {
				c.t.Errorf("%d volumes are left", left)
			}
		}},
		"lookup refused": {emulator.Shapes{LookupStatus: 401}, func(c *caller) {
			c.get("/kubernetes-clusters?name=n").refused(401, emulator.CodeInvalidToken)
			c.get("/vpcs").want(200)
		}},
		"lookup with something else": {emulator.Shapes{LookupStatus: 200}, func(c *caller) {
			c.get("/kubernetes-clusters?name=n").want(200).has("welcome", "message")
		}},
		"tokens without exp": {emulator.Shapes{TokensWithoutExp: true}, func(c *caller) {
			if expires, err := parse(c.t, c.token).GetExpirationTime(); err != nil || expires != nil {
				c.t.Errorf("exp is %v, %v", expires, err)
			}
			time.Sleep(8 * time.Hour)
			c.get("/vpcs").refused(401, emulator.CodeInvalidToken)
		}},
		"extra fields": {emulator.Shapes{ExtraFields: true}, func(c *caller) { c.get("/vpcs").want(200).text("links", "self") }},
		"reset of a window": {emulator.Shapes{ResetSeconds: 3600}, func(c *caller) {
			if got := c.get("/vpcs").header.Get("X-RateLimit-Reset"); got != fmt.Sprint(time.Now().Add(time.Hour).Unix()) {
				c.t.Errorf("the window ends at %s", got)
			}
		}},
		"what is left of a minute": {emulator.Shapes{WindowRemaining: true}, func(c *caller) { // the login was the first request of it
			time.Sleep(40 * time.Second)
			for left := 298; left > 248; left-- {
				h := c.get("/vpcs").want(200).header
				if h.Get("X-RateLimit-Remaining") != fmt.Sprint(left) || h.Get("X-RateLimit-Reset") != fmt.Sprint(time.Now().Unix()+20) {
					c.t.Fatalf("%v, want %d remaining for 20 s", h, left)
				}
			}
			if left := c.get("/vpcs").want(429).header.Get("X-RateLimit-Remaining"); left != "249" {
				c.t.Errorf("beyond the burst, %s remain of the minute", left)
			}
			time.Sleep(20 * time.Second)
			if left := c.get("/vpcs").want(200).header.Get("X-RateLimit-Remaining"); left != "299" {
				c.t.Errorf("%s remain of the next minute", left)
			}
		}},
		"codes": {emulator.Shapes{CodeStatus: map[string]int{emulator.CodeResourceNotFound: 422, emulator.CodeInvalidParameter: 409}}, func(c *caller) {
			c.get("/jobs/none").refused(422, emulator.CodeResourceNotFound)
			c.post("/networks", `{"cidr":"x"}`).refused(409, emulator.CodeInvalidParameter)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Options{Shapes: test.shapes}, func(_ *testing.T, _ *emulator.Portal, c *caller) { test.check(c) })
		})
	}
}

// TestOTPTokenField checks the options for the token's field, whose name the specification does not show.
func TestOTPTokenField(t *testing.T) {
	opts := mfaOptions()
	opts.Shapes.OTPTokenField, opts.Shapes.OTPTokenIn, opts.Shapes.SendOTPStatus = "accessToken", "session", 204
	bubble(t, opts, func(t *testing.T, _ *emulator.Portal, c *caller) {
		c.post("/mfa/send-otp", "").want(204)
		c.token = c.post("/mfa/verify-otp", otpBody(t, time.Now())).want(200).text("session", "accessToken")
		c.get("/vpcs").want(200)
	})
}

// TestOptionsThatCannotBe checks that invalid options are refused at the start.
func TestOptionsThatCannotBe(t *testing.T) {
	for name, opts := range map[string]emulator.Options{
		"volume status":  {Shapes: emulator.Shapes{VolumeStatus: 201}},
		"otp status":     {Shapes: emulator.Shapes{SendOTPStatus: 201}},
		"otp field":      {Shapes: emulator.Shapes{OTPTokenIn: "token"}},
		"lookup status":  {Shapes: emulator.Shapes{LookupStatus: 201}},
		"lookup page":    {Shapes: emulator.Shapes{LookupPage: true}},
		"reset":          {Shapes: emulator.Shapes{ResetSeconds: -1}},
		"credentials":    {Shapes: emulator.Shapes{CredentialsCode: "wrong password"}},
		"created id":     {Shapes: emulator.Shapes{CreatedID: "elsewhere"}},
		"network status": {Shapes: emulator.Shapes{NetworkStatus: 204}},
		"job error":      {Shapes: emulator.Shapes{JobError: "list"}},
		"code status":    {Shapes: emulator.Shapes{CodeStatus: map[string]int{"X": 200}}},
		"version":        {Versions: []emulator.Version{{SemanticVersion: "1.36"}}},
		"workers":        {MinWorkers: 60},
		"rate":           {RateLimit: emulator.RateLimit{PerMinute: -1}},
		"burst":          {RateLimit: emulator.RateLimit{Burst: -1}},
		"rate, huge":     {RateLimit: emulator.RateLimit{PerMinute: 100_000_000_000}},
		"burst, huge":    {RateLimit: emulator.RateLimit{PerMinute: 1, Burst: 1_000_000_000}},
		"tokens":         {TokenLifetime: -1},
		"clusters":       {MaxClusters: -1},
		"request log":    {RequestLogSize: -1},
		"base path":      {BasePath: "api"},
		"base path, URL": {BasePath: "/a b?c"},
		"trait, time":    {Traits: emulator.Traits{ScanInterval: -1}},
		"trait, machine": {ServiceOfferings: []string{"large"}, Traits: emulator.Traits{SmallOfferings: []string{"small"}}},
		"trait, zone":    {Zones: []string{"east"}, Traits: emulator.Traits{TripleZones: []string{"west"}}},
		"trait, word":    {Traits: emulator.Traits{DeletedClusters: "archived"}},
		"trait, remains": {Traits: emulator.Traits{DeletedClusters: emulator.DeletedReadable}},
		"kubeconfigs":    {KubeconfigLifetime: -1},
		"marks":          {ControlMarks: "crown"},
		"victims":        {VictimOrder: "largest"},
		"upgrade":        {UpgradeStyle: "big bang"},
	} {
		if _, err := emulator.New(opts); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
