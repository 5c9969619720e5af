// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestNoSecretInTheRequestLog sends canaries in all fields of valid and invalid requests, and checks that none appears in the
// request log.
func TestNoSecretInTheRequestLog(t *testing.T) {
	const canary = "canary-secret"
	var copied strings.Builder
	users := []emulator.User{{Email: "admin@portal.example", Password: canary, TOTPSeed: totpSeed}}
	opts := emulator.Options{Users: users, RequestLogTo: &copied}
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
		secrets := []string{canary, totpSeed, c.token}
		c.post("/mfa/send-otp", "").want(200)
		code, err := totp.GenerateCode(totpSeed, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.token = c.post("/mfa/verify-otp", fmt.Sprintf(`{"otp":%q}`, code)).want(200).text("token")
		secrets = append(secrets, code, c.token)
		id := c.create(c.newCluster(1))
		kubeconfig := c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig")
		_, token, _ := strings.Cut(kubeconfig, "token: ")
		secrets = append(secrets, token[:32])
		for _, body := range []string{`{"email":"admin@portal.example","password":"canary-secret!"}`, `{"password":"canary-secret"}`, `canary-secret`, `{"canary-secret":1}`} {
			c.post("/login", body)
			c.post("/networks", body)
		}
		c.post("/reset-password", `{"email":"admin@portal.example"}`).want(200)
		reset := p.Mailbox("admin@portal.example")[0].ResetToken
		secrets = append(secrets, reset)
		c.post("/reset-password/"+reset+"/", `{"password":"canary-secret"}`).want(404)
		c.do("GET", "/reset-password/"+reset, "").want(405)
		c.get("/vpcs?token=" + c.token).want(400)
		c.post("/reset-password/"+reset, `{"password":"canary-secret-2"}`).want(200)
		login := &caller{t: t, p: p}
		login.post("/login", `{"email":"admin@portal.example","password":"canary-secret-2"}`).want(200)

		data, err := json.Marshal(p.RequestLog())
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := p.WriteRequestLog(&text); err != nil {
			t.Fatal(err)
		}
		for i, s := range secrets {
			if s == "" {
				t.Fatalf("secret %d is empty", i)
			}
			for form, printed := range map[string]string{"data": string(data), "text": text.String(), "copy": copied.String(), "mailbox": fmt.Sprintf("%v %#v", p.Mailbox("admin@portal.example"), p.Mailbox("admin@portal.example"))} {
				if strings.Contains(printed, s) {
					t.Errorf("secret %d is in the %s", i, form)
				}
			}
		}
		if text.String() != copied.String() {
			t.Error("the copy differs from the request log")
		}
	})
}

// TestEntry checks the text form of entries.
func TestEntry(t *testing.T) {
	for want, e := range map[string]emulator.LogEntry{
		"GET /jobs/1 → 404 RESOURCE_NOT_FOUND fault=f":       {Method: "GET", Path: "/jobs/1", Status: 404, Code: "RESOURCE_NOT_FOUND", Fault: "f"},
		"POST /networks → cut":                               {Method: "POST", Path: "/networks"},
		"PUT /x → 404 RESOURCE_NOT_FOUND violation: no such": {Method: "PUT", Path: "/x", Status: 404, Code: "RESOURCE_NOT_FOUND", Violation: "no such"},
		"  job j: pending → running scale":                   {Object: "job", ID: "j", From: "pending", To: "running", Detail: "scale"},
		"  portal: ready":                                    {Object: "portal", To: "ready"},
		"GET /vpcs%0A00:00 GET /x → 404":                     {Method: "GET", Path: "/vpcs\n00:00 GET /x", Status: 404},
		"  vpc v: created a%1B[2J%85":                        {Object: "vpc", ID: "v", To: "created", Detail: "a\x1b[2J\u0085"},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRequestLogForgets checks that a portal which runs for long keeps the last entries of its request log, and that a reader who goes on from
// where it was meets each entry once.
func TestRequestLogForgets(t *testing.T) {
	const size, requests = 100, 1000
	bubble(t, emulator.Options{RequestLogSize: size}, func(t *testing.T, p *emulator.Portal, c *caller) {
		seen, next := 0, 0
		for range requests {
			c.get("/vpcs").want(200)
			time.Sleep(time.Second)
			var entries []emulator.LogEntry
			entries, next = p.RequestLogFrom(next)
			seen += len(entries)
		}
		if kept := len(p.RequestLog()); kept < size || kept > 2*size {
			t.Errorf("%d entries are kept, want %d or some more", kept, size)
		}
		if want := requests + 2; seen != want || next != want { // with the start and the login
			t.Errorf("%d entries were read, of %d, want %d", seen, next, want)
		}
		if late, all := p.RequestLogFrom(0); len(late) > 2*size || all != next || late[len(late)-1].Method != "GET" {
			t.Errorf("a new reader gets %d entries, of %d", len(late), all)
		}
	})
}
