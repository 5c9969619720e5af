// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

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

// TestNoSecretInTheRequestLog sends secrets in requests that the portal cannot read or refuses, and checks that none appears in the request
// log. test/faulttest: TestCanary has the requests of a life.
func TestNoSecretInTheRequestLog(t *testing.T) {
	const canary, email = "canary-secret", "admin@portal.example"
	var copied, text strings.Builder
	opts := emulator.Options{Users: []emulator.User{{Email: email, Password: canary}}, RequestLogTo: &copied}
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
		for _, body := range []string{`{"email":"admin@portal.example","password":"canary-secret!"}`, `{"password":"canary-secret"}`, `canary-secret`, `{"canary-secret":1}`} {
			c.post("/login", body)
			c.post("/networks", body)
		}
		c.post("/reset-password", `{"email":"admin@portal.example"}`).want(200)
		reset := p.Mailbox(email)[0].ResetToken
		c.post("/reset-password/"+reset+"/", `{"password":"canary-secret"}`).want(404)
		c.get("/reset-password/" + reset).want(405)
		c.get("/vpcs?token=" + c.token).want(400)

		data, err := json.Marshal(p.RequestLog())
		if err = errors.Join(err, p.WriteRequestLog(&text)); err != nil {
			t.Fatal(err)
		}
		mailbox := fmt.Sprintf("%v %#v", p.Mailbox(email), p.Mailbox(email))
		for form, printed := range map[string]string{"data": string(data), "text": text.String(), "copy": copied.String(), "mailbox": mailbox} {
			for _, secret := range []string{canary, c.token, reset} {
				if strings.Contains(printed, secret) {
					t.Errorf("%q is in the %s", secret, form)
				}
			}
		}
		if text.String() != copied.String() {
			t.Error("the copy differs from the request log")
		}
	})
}
