// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestStrict checks that requests outside the specification are refused in the documented shape and recorded as violations.
func TestStrict(t *testing.T) {
	json := map[string]string{"Content-Type": "application/json"}
	tests := []struct {
		name, method, path, body string
		header                   map[string]string
		status                   int
		code, field              string
	}{
		{name: "unknown path", method: "GET", path: "/clusters", status: 404, code: emulator.CodeResourceNotFound},
		{name: "trailing slash", method: "GET", path: "/vpcs/", status: 404, code: emulator.CodeResourceNotFound},
		{name: "HEAD", method: "HEAD", path: "/instances", status: 405, code: emulator.CodeOperationNotAllowed},
		{name: "list of clusters", method: "GET", path: "/kubernetes-clusters?name=x", status: 405, code: emulator.CodeOperationNotAllowed},
		{name: "unknown query", method: "GET", path: "/vpcs?title=x", status: 400, field: "title"},
		{name: "query that cannot be read", method: "GET", path: "/vpcs?name=%zz", status: 400},
		{name: "query given twice", method: "GET", path: "/vpcs?name=a&name=b", status: 400, field: "name"},
		{name: "body where none is known", method: "DELETE", path: "/volumes/1", body: `{}`, status: 400},
		{name: "no content type", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24"}`, header: map[string]string{"Content-Type": ""}, status: 400, field: "Content-Type"},
		{name: "wrong content type", method: "POST", path: "/networks", body: `cidr=10.0.0.0/24`, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, status: 400, field: "Content-Type"},
		{name: "no body", method: "POST", path: "/networks", header: json, status: 400},
		{name: "no JSON", method: "POST", path: "/networks", body: `{"cidr":`, status: 400},
		{name: "two objects", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24"}{}`, status: 400},
		{name: "empty parameter", method: "POST", path: "/networks", body: `{"cidr":""}`, status: 400, field: "cidr"},
		{name: "wrong type", method: "POST", path: "/networks", body: `{"cidr":10}`, status: 400, field: "cidr"},
		{name: "unknown parameter", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24","size":3}`, status: 400, field: "size"},
		{name: "parameter given twice", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24","cidr":"10.1.0.0/24"}`, status: 400, field: "cidr"},
		{name: "number as text", method: "POST", path: "/kubernetes-clusters/1/scale", body: `{"size":"3"}`, status: 400, field: "size"},
		{name: "large body", method: "POST", path: "/networks", body: `{"cidr":"` + strings.Repeat("1", 1<<20) + `"}`, status: 400},
	}
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := len(p.Violations())
			c := &caller{t: t, p: p, token: c.token}
			r := c.request(test.method, test.path, test.body)
			for key, value := range test.header {
				r.Header.Set(key, value)
			}
			if test.code == "" {
				test.code = emulator.CodeInvalidParameter
			}
			got := c.send(r).refused(test.status, test.code)
			if field, _ := got.at("error", "field").(string); field != test.field {
				t.Errorf("field %q, want %q", field, test.field)
			}
			if all := p.Violations(); len(all) != before+1 || all[before].RequestID != got.text("error", "requestId") {
				t.Error("no violation was recorded")
			}
		})
	}
}

// TestAllow checks that a refused method goes with the methods of its path (RFC 9110, 15.5.6).
func TestAllow(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	for path, want := range map[string]string{"/vpcs": "GET, POST", "/networks": "POST", "/instances/1": "GET"} {
		if got := c.do("PUT", path, "").refused(405, emulator.CodeOperationNotAllowed).header.Get("Allow"); got != want {
			t.Errorf("%s: Allow: %q, want %q", path, got, want)
		}
	}
	if got := c.get("/vpcs").want(200).header.Values("Allow"); got != nil {
		t.Errorf("a served request has Allow: %q", got)
	}
}

// TestCorrectCalls checks that calls within the specification are no violations, even if the portal's rules refuse them.
func TestCorrectCalls(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	c.post("/networks", `{"cidr":"10.0.0.1/24"}`).refused(400, emulator.CodeInvalidParameter)
	c.get("/jobs/none").refused(404, emulator.CodeResourceNotFound)
	r := c.request("POST", "/networks", `{"cidr":"10.0.0.0/24"}`)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	c.send(r).want(201)
	if v := p.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}
