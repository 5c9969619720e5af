// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"net/http"
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
		{name: "unknown path below", method: "GET", path: "/jobs/1/result", status: 404, code: emulator.CodeResourceNotFound},
		{name: "trailing slash", method: "GET", path: "/vpcs/", status: 404, code: emulator.CodeResourceNotFound},
		{name: "no id", method: "GET", path: "/jobs/", status: 404, code: emulator.CodeResourceNotFound},
		{name: "unknown method", method: "PUT", path: "/networks", status: 405, code: emulator.CodeOperationNotAllowed},
		{name: "HEAD", method: "HEAD", path: "/instances", status: 405, code: emulator.CodeOperationNotAllowed},
		{name: "list of clusters", method: "GET", path: "/kubernetes-clusters?name=x", status: 405, code: emulator.CodeOperationNotAllowed},
		{name: "unknown query", method: "GET", path: "/vpcs?title=x", status: 400, field: "title"},
		{name: "query that cannot be read", method: "GET", path: "/vpcs?name=%zz", status: 400},
		{name: "query given twice", method: "GET", path: "/vpcs?name=a&name=b", status: 400, field: "name"},
		{name: "query where none is known", method: "GET", path: "/instances?page=2", status: 400, field: "page"},
		{name: "body where none is known", method: "DELETE", path: "/volumes/1", body: `{}`, status: 400},
		{name: "no content type", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24"}`, header: map[string]string{"Content-Type": ""}, status: 400, field: "Content-Type"},
		{name: "wrong content type", method: "POST", path: "/networks", body: `cidr=10.0.0.0/24`, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, status: 400, field: "Content-Type"},
		{name: "no body", method: "POST", path: "/networks", header: json, status: 400},
		{name: "no object", method: "POST", path: "/networks", body: `["10.0.0.0/24"]`, status: 400},
		{name: "no JSON", method: "POST", path: "/networks", body: `{"cidr":`, status: 400},
		{name: "two objects", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24"}{}`, status: 400},
		{name: "missing parameter", method: "POST", path: "/networks", body: `{}`, status: 400, field: "cidr"},
		{name: "null parameter", method: "POST", path: "/networks", body: `{"cidr":null}`, status: 400, field: "cidr"},
		{name: "empty parameter", method: "POST", path: "/networks", body: `{"cidr":""}`, status: 400, field: "cidr"},
		{name: "wrong type", method: "POST", path: "/networks", body: `{"cidr":10}`, status: 400, field: "cidr"},
		{name: "unknown parameter", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24","size":3}`, status: 400, field: "size"},
		{name: "other spelling", method: "POST", path: "/networks", body: `{"CIDR":"10.0.0.0/24"}`, status: 400, field: "cidr"},
		{name: "parameter given twice", method: "POST", path: "/networks", body: `{"cidr":"10.0.0.0/24","cidr":"10.1.0.0/24"}`, status: 400, field: "cidr"},
		{name: "fraction of a worker", method: "POST", path: "/kubernetes-clusters/1/scale", body: `{"size":1.5}`, status: 400, field: "size"},
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
			if len(p.Violations()) != before+1 {
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

// TestPlainHTTP checks that plain HTTP is refused behind any listener (Authentication 9).
func TestPlainHTTP(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	r := c.request("GET", "/vpcs", "")
	r.URL.Scheme = "http"
	c.send(r).refused(400, emulator.CodeOperationNotAllowed)
}

// TestCorrectCalls checks that calls within the specification are no violations, even if the portal's rules refuse them.
func TestCorrectCalls(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	c.get("/kubernetes-versions").want(http.StatusOK)
	c.post("/networks", `{"cidr":"10.0.0.1/24"}`).refused(400, emulator.CodeInvalidParameter)
	c.get("/jobs/none").refused(404, emulator.CodeResourceNotFound)
	r := c.request("POST", "/networks", `{"cidr":"10.0.0.0/24"}`)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	c.send(r).want(201)
	if v := p.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}

// TestRequestIDs checks that every error has a unique request id, and that the request log has it, too.
func TestRequestIDs(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := &caller{t: t, p: p}
	seen := map[string]bool{}
	for _, path := range []string{"/nothing", "/vpcs", "/jobs/1"} {
		seen[c.get(path).text("error", "requestId")] = true
	}
	for _, e := range p.RequestLog() {
		delete(seen, e.RequestID)
	}
	if requests := p.RequestLog()[1:]; len(requests) != 3 || len(seen) != 0 {
		t.Errorf("request log %v, ids that it lacks %v", requests, seen)
	}
}

// TestBasePath checks that the base path precedes every endpoint.
func TestBasePath(t *testing.T) {
	p := newPortal(t, emulator.Options{BasePath: "/api/v1/"})
	c := login(t, p)
	c.get("/vpcs").want(200)
	r := c.request("GET", "", "")
	r.URL.Path = "/vpcs"
	c.send(r).refused(404, emulator.CodeResourceNotFound)
}
