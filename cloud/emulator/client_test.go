// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// newPortal is closed when its test, or its bubble, ends.
func newPortal(t *testing.T, opts emulator.Options) *emulator.Portal {
	t.Helper()
	p, err := emulator.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// caller speaks the wire format by hand, so that the tests depend on nothing but the specification.
type caller struct {
	t     *testing.T
	p     *emulator.Portal
	token string
}

// login returns a caller for the portal's first user.
func login(t *testing.T, p *emulator.Portal) *caller {
	t.Helper()
	email, password := p.Credentials()
	return loginAs(t, p, email, password)
}

func loginAs(t *testing.T, p *emulator.Portal, email, password string) *caller {
	t.Helper()
	c := &caller{t: t, p: p}
	c.token = c.post("/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)).want(200).text("token")
	return c
}

func (c *caller) get(path string) *reply        { c.t.Helper(); return c.do("GET", path, "") }
func (c *caller) post(path, body string) *reply { c.t.Helper(); return c.do("POST", path, body) }
func (c *caller) delete(path string) *reply     { c.t.Helper(); return c.do("DELETE", path, "") }

func (c *caller) do(method, path, body string) *reply {
	c.t.Helper()
	r := c.request(method, path, body)
	return c.send(r)
}

func (c *caller) request(method, path, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.p.URL()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r
}

func (c *caller) send(r *http.Request) *reply {
	c.t.Helper()
	out := &reply{t: c.t, what: r.Method + " " + r.URL.Path}
	response, err := c.p.Transport().RoundTrip(r)
	if err != nil {
		out.err = err
		return out
	}
	defer func() { _ = response.Body.Close() }()
	out.status, out.header = response.StatusCode, response.Header
	out.raw, out.err = io.ReadAll(response.Body)
	if json.Unmarshal(out.raw, &out.body) != nil {
		out.body = nil
	}
	return out
}

// reply is what a call got.
type reply struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	raw    []byte
	body   any
	err    error
}

func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.err != nil {
		r.t.Fatalf("%s: %v", r.what, r.err)
	}
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d: %s", r.what, r.status, status, r.raw)
	}
	return r
}

// at follows keys and indexes into the body; nil where they lead nowhere.
func (r *reply) at(path ...any) any {
	value := r.body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// text is a string that has to be there.
func (r *reply) text(path ...any) string {
	r.t.Helper()
	s, ok := r.at(path...).(string)
	if !ok || s == "" {
		r.t.Fatalf("%s: no text at %v in %s", r.what, path, r.raw)
	}
	return s
}

// has checks one value of the body.
func (r *reply) has(value any, path ...any) *reply {
	r.t.Helper()
	if got := r.at(path...); got != value {
		r.t.Fatalf("%s: %v at %v, want %v in %s", r.what, got, path, value, r.raw)
	}
	return r
}

// refused checks the documented error shape.
func (r *reply) refused(status int, code string) *reply {
	r.t.Helper()
	r.want(status).has(code, "error", "code")
	r.text("error", "message")
	r.text("error", "requestId")
	return r
}

func clusterBody(p *emulator.Portal, vpc, network string, size int) string {
	return fmt.Sprintf(`{"name":"demo","description":"a test","zoneId":"zone-1","kubernetesVersionId":%q,
		"serviceOfferingId":"so-1","size":%d,"controlNodes":1,"networkId":%q,"vpcId":%q,"sshKeyPair":"key"}`,
		p.Versions()[0].ID, size, network, vpc)
}

func versionID(p *emulator.Portal, semantic string) string {
	for _, v := range p.Versions() {
		if v.SemanticVersion == semantic {
			return v.ID
		}
	}
	return ""
}
