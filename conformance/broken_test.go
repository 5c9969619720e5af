// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// broken is a portal that violates one statement of the specification, with the checks that must notice.
type broken struct {
	name    string
	options func(*emulator.Options)
	kit     func(*clientKit) // changes the client
	ask     func(*exchange)  // changes a request on its way to the portal
	tell    func(*exchange)  // changes the answer on its way back
	noticed []string         // checks
}

// exchange is a request and its answer. Functions of broken may change both.
type exchange struct {
	seen   *memory
	method string
	path   string // below the base URL
	token  string
	sent   map[string]any // body; nil if it is missing or not an object
	status int
	header http.Header
	body   any // of the answer
	late   func()
	more   func(method, path string, sent map[string]any) // makes the portal do something else, too
}

// memory is the state of a broken portal between requests.
type memory struct {
	token   string // the first full-access one
	answers map[string]exchange
	count   int
}

func (x *exchange) is(method, path string) bool {
	return x.method == method && strings.Contains(x.path, path)
}

// object returns the object at the path in the answer's body, or an empty object.
func (x *exchange) object(path ...any) map[string]any {
	if object, ok := at(x.body, path...).(map[string]any); ok {
		return object
	}
	return map[string]any{}
}

// TestBrokenPortals checks that each check fails at a portal that violates its statement.
func TestBrokenPortals(t *testing.T) {
	byName := map[string]check{}
	for _, c := range checks() {
		byName[c.name] = c
	}
	noticed := map[string]bool{}
	for _, b := range brokenPortals() {
		for _, name := range b.noticed {
			noticed[name] = true
			c, known := byName[name]
			if !known {
				t.Fatalf("unknown check %q", name)
			}
			t.Run(b.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if failures := b.run(t, c); len(failures) == 0 {
						t.Error("the check passes")
					}
				})
			})
		}
	}
	for name := range byName {
		if !noticed[name] && unbreakable[name] == "" {
			t.Errorf("no broken portal makes check %q fail", name)
		}
	}
}

// unbreakable lists the checks that no change of requests and answers can make fail, each with the reason.
var unbreakable = map[string]string{
	"gap/lookup of clusters by name": "the provider takes every answer",
}

// run returns the failures of a check at the broken portal.
func (b *broken) run(t *testing.T, c check) []string {
	s := emulated(t, func(o *emulator.Options) {
		if b.options != nil {
			b.options(o)
		}
	})
	s.Tier = Defaults().Tier // not the portal's
	if b.kit != nil {
		b.kit(&s.kit)
	}
	seen := &memory{answers: map[string]exchange{}}
	s.through = func(next http.RoundTripper) http.RoundTripper {
		return &spoiled{next: next, base: s.URL, b: b, seen: seen}
	}
	s.via = s.through(s.via)
	return s.try(c.run).failures
}

// spoiled is a transport to a broken portal.
type spoiled struct {
	next http.RoundTripper
	base string
	b    *broken
	seen *memory
}

// RoundTrip implements http.RoundTripper.
func (s *spoiled) RoundTrip(r *http.Request) (*http.Response, error) {
	var raw []byte
	var err error
	if r.Body != nil {
		if raw, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	x := &exchange{seen: s.seen, method: r.Method, path: r.URL.RequestURI(), late: func() {}}
	x.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	x.more = func(method, path string, sent map[string]any) { s.besides(r, method, path, sent) }
	_ = json.Unmarshal(raw, &x.sent) // a body that is not an object stays as it is
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		x.path += "#" + key
	}
	if s.b.ask != nil {
		s.b.ask(x)
		if raw, err = s.rewrite(r, x, raw); err != nil {
			return nil, err
		}
	}
	if x.status == 0 {
		r.Body = io.NopCloser(bytes.NewReader(raw))
		r.ContentLength = int64(len(raw))
		if err := s.forward(r, x); err != nil {
			return nil, err
		}
	}
	if s.b.tell != nil {
		s.b.tell(x)
	}
	x.late()
	return x.response(r)
}

// besides sends another request for the same user, and waits until its job has ended.
func (s *spoiled) besides(r *http.Request, method, path string, sent map[string]any) {
	raw, _ := json.Marshal(sent) // texts and numbers
	other, err := http.NewRequestWithContext(r.Context(), method, s.base+path, bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	other.Header = r.Header.Clone()
	if response, err := s.next.RoundTrip(other); err == nil {
		_ = response.Body.Close()
	}
	time.Sleep(20 * time.Second)
}

// rewrite applies the changes to the request.
func (s *spoiled) rewrite(r *http.Request, x *exchange, raw []byte) ([]byte, error) {
	path, _, _ := strings.Cut(x.path, "#")
	changed, err := http.NewRequest(x.method, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	r.Method, r.URL = x.method, changed.URL
	r.Header.Del("Authorization")
	if x.token != "" {
		r.Header.Set("Authorization", "Bearer "+x.token)
	}
	if x.sent == nil {
		return raw, nil
	}
	r.Header.Set("Content-Type", "application/json")
	return json.Marshal(x.sent)
}

// forward sends the request to the portal, and remembers the first full-access token.
func (s *spoiled) forward(r *http.Request, x *exchange) error {
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	x.status, x.header = response.StatusCode, response.Header
	_ = json.Unmarshal(raw, &x.body) // everything is JSON
	token, _ := at(x.body, "token").(string)
	if s.seen.token == "" && x.is("POST", "/login") && at(x.body, "mfaRequired") == false {
		s.seen.token = token
	}
	return nil
}

func (x *exchange) response(r *http.Request) (*http.Response, error) {
	raw, err := json.Marshal(x.body)
	if err != nil {
		return nil, err
	}
	if x.header == nil {
		x.header = http.Header{"Content-Type": {"application/json"}}
	}
	x.header.Del("Content-Length")
	return &http.Response{StatusCode: x.status, Header: x.header, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, nil
}
