// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestImpossibleIDs checks that the client never sends an id that would address another endpoint.
func TestImpossibleIDs(t *testing.T) {
	c := newClient(t, testConfig(noTransport{t}))
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.DeleteCluster(t.Context(), id); !IsInvalid(err) || asError(err).Field != "cluster_id" {
			t.Errorf("id %q: %v", id, err)
		}
		if _, err := c.Job(t.Context(), id); !IsInvalid(err) || asError(err).Field != "job_id" {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// TestObserve checks that Observe is called for every request, including the login, with the route and never with an id.
func TestObserve(t *testing.T) {
	var calls []Call
	config := testConfig(answersWith(409, `{"error":{"code":"RESOURCE_BUSY"}}`))
	config.Observe = func(c Call) { calls = append(calls, c) }
	c := newClient(t, config)
	_, _ = c.ScaleCluster(t.Context(), "secret-id", 3)
	_, _ = c.Job(t.Context(), "secret-id")
	for i := range calls {
		calls[i].Duration, calls[i].Waited = 0, 0
	}
	want := []Call{
		{Endpoint: "POST /login", Class: ratelimit.Login, Status: 200},
		{Endpoint: "POST /kubernetes-clusters/{cluster_id}/scale", Class: ratelimit.Mutation, Status: 409, Code: CodeResourceBusy},
		{Endpoint: "GET /jobs/{job_id}", Class: ratelimit.Poll, Status: 409, Code: CodeResourceBusy},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestFlightThatComesTooLate checks that a new flight takes over the result of one that ended after its caller had read the session.
func TestFlightThatComesTooLate(t *testing.T) {
	portal := newByPath(nil)
	s := newClient(t, testConfig(portal)).session
	s.current = schedule("token-0", Login{UserID: "u"}, time.Now())
	if g, err := s.login(t.Context()); err != nil || g.token.reveal() != "token-0" {
		t.Errorf("%v, %v", g, err)
	}
	s.refusal = failure{err: &Error{kind: kindUnauthorized}, until: time.Now().Add(time.Minute)}
	if g, err := s.login(t.Context()); g != nil || !IsUnauthorized(err) || portal.calls["/login"] != 0 {
		t.Errorf("%v, %v after %d logins", g, err, portal.calls["/login"])
	}
}

// TestCreatedID checks that CreatedID chooses the record with the requested name, or else that of the requested kind.
func TestCreatedID(t *testing.T) {
	for _, test := range []struct {
		body string
		kind Kind
		name string
		want string
	}{
		{`{"cluster":{"id":"c"},"network":{"id":"n"}}`, KindNetwork, "", "n"},
		{`{"cluster":{"id":"c"},"network":{"id":"n"}}`, KindCluster, "", "c"},
		{`{"cluster":{"id":"c"},"network":{"id":"n"}}`, "", "", ""},
		{`{"network":{"id":"n"}}`, KindCluster, "", ""},
		{`{"network":{"id":"n"}}`, "", "", "n"},
		{`{"record":{"id":"r"},"network":{"id":"n"}}`, KindCluster, "", "r"},
		{`{"a":{"id":"1","name":""},"b":{"id":"2"}}`, KindCluster, "", ""},
		{`{"cluster":{"id":"c","name":"mine"},"network":{"id":"n","name":"mine"}}`, KindCluster, "mine", "c"},
		{`{"cluster":{"id":"c","name":"mine"},"network":{"id":"n","name":"mine"}}`, KindNetwork, "mine", "n"},
		{`{"a":{"id":"1","name":"mine"},"cluster":{"id":"c","name":"another"}}`, KindCluster, "mine", "1"},
		{`{"id":"top","cluster":{"id":"c"}}`, KindCluster, "", "c"},
		{`{"id":"top","network":{"id":"n"}}`, KindCluster, "", "top"},
		{`{"a":{"b":{"c":{"d":{"id":"deep"}}}}}`, KindCluster, "", "deep"},
		{`{"a":{"b":{"c":{"d":{"e":{"id":"too deep"}}}}}}`, KindCluster, "", ""},
		{`{"a":{"id":"1","owner":{"id":"2"}}}`, KindCluster, "", "1"},
		{`{"a":[{"id":"2"}],"b":{"id":"1"}}`, KindCluster, "", "1"},
		{`{"resource":{"kubernetesCluster":{"id":"c","name":"mine"},"network":{"id":"n"}}}`, KindCluster, "mine", "c"},
		{`{"id":"operation","kubernetesCluster":{"id":"c","name":"mine"}}`, KindCluster, "mine", "c"},
		{`{"resources":[{"id":"n"},{"id":"c","name":"mine"}]}`, KindCluster, "mine", "c"},
		{`{"id":7}`, KindCluster, "mine", "7"},
		{`{"a":{"id":"1","name":"mine"},"b":{"id":"2","name":"mine"}}`, KindCluster, "mine", ""},
		{`{"clusterId":"c"}`, KindCluster, "mine", ""},
		{``, KindCluster, "mine", ""}, {`[]`, KindCluster, "mine", ""},
	} {
		if id, ok := (Job{Result: []byte(test.body)}).CreatedID(test.kind, test.name); id != test.want || ok != (id != "") {
			t.Errorf("%s as %s %q: %q, want %q", test.body, test.kind, test.name, id, test.want)
		}
	}
}

// TestTokenAtTheTop checks that a token at the top is preferred to a nested one, in any order, and found at most four levels down.
func TestTokenAtTheTop(t *testing.T) {
	for _, body := range []string{`{"a":{"token":"deep"},"token":"top"}`, `{"token":"top","z":{"token":"deep"}}`, `{"a":[{"token":"deep"}],"token":"top"}`} {
		for range 20 { // the order of keys is random
			if token, shape := tokenIn([]byte(body), ""); token != "top" || shape != tokenUsualName {
				t.Fatalf("%s: %q, %s", body, token, shape)
			}
		}
	}
	for body, want := range map[string]string{`{"a":{"a":{"a":{"token":"t"}}}}`: "t", `{"a":{"a":{"a":{"a":{"token":"t"}}}}}`: ""} {
		if token, _ := tokenIn([]byte(body), ""); token != want {
			t.Errorf("%s: %q", body, token)
		}
	}
	for token, usable := range map[string]bool{"a~b": true, "a!b": true, "a b": false, "a\x7fb": false, "": false} {
		if usableToken(token) != usable {
			t.Errorf("token %q is usable: %v", token, !usable)
		}
	}
}

// TestTextOfTheLargestLength checks that a text of the maximum length is not shortened.
func TestTextOfTheLargestLength(t *testing.T) {
	for length, want := range map[int]string{128: strings.Repeat("x", 128), 129: strings.Repeat("x", 127) + "…"} {
		if got := clean(strings.Repeat("x", length), 128, nil); got != want {
			t.Errorf("%d characters become %q", length, got)
		}
	}
}

// TestLookup checks how the client reads the answer of the undocumented endpoint. If it refuses the token, the client sends a documented read,
// whose answer decides whether the token is invalid, and then logs in again. A refused login is not taken for the endpoint's answer. In all
// other cases the client sends no such read. It reports once whether a portal answers.
func TestLookup(t *testing.T) {
	invalid := func(r *http.Request) *http.Response {
		if r.Header.Get("Authorization") == "Bearer token-1" {
			return respond(401, refusedToken)
		}
		return respond(200, `{"kubernetesClusters":[{"id":"c","name":"n"}],"versions":[]}`)
	}
	for _, test := range []struct {
		question, read func(*http.Request) *http.Response
		again          *http.Response // the answer to the second login
		want           string
		reads, logins  int
	}{
		{invalid, invalid, nil, "", 2, 2},
		{invalid, invalid, respond(200, `<html>`), "not portal", 1, 2},
		{invalid, invalid, respond(403, `{"error":{"code":"MFA_REQUIRED"}}`), "mfa", 1, 2},
		{invalid, invalid, respond(401, ``), "unauthorized", 1, 2},
		{always(401, ``), always(200, `{"versions":[]}`), nil, "unsupported", 1, 1},
		{always(403, `{"error":{"code":"MFA_REQUIRED"}}`), always(403, `{"error":{"code":"FORBIDDEN"}}`), nil, "unsupported", 1, 1},
		{always(401, ``), always(503, ``), nil, "unavailable", 1, 1},
		{always(401, ``), always(429, ``), nil, "rate limited", 1, 1},
		{always(404, ``), always(503, ``), nil, "unsupported", 0, 1},
		{always(200, `{"kubernetesClusters":[{"name":"no id"}]}`), nil, nil, "unsupported", 0, 1},
	} {
		portal := newByPath(nil)
		portal.serve = map[string]func(*http.Request) *http.Response{"/kubernetes-clusters": test.question, "/kubernetes-versions": test.read,
			"/login": func(*http.Request) *http.Response {
				if n := portal.calls["/login"]; n == 1 || test.again == nil {
					return respond(200, fmt.Sprintf(`{"token":"token-%d","user":{"id":"u"}}`, n))
				}
				return test.again
			}}
		config, shapes := testConfig(portal), ""
		config.ObserveShape = func(gap, shape string) {
			if gap == gapFind {
				shapes += shape
			}
		}
		_, err := newClient(t, config).FindClusters(t.Context(), "n")
		if want := map[string]string{"unsupported": findUnknown, "": findListed}[test.want]; shapes != want {
			t.Errorf("%q: the shape was reported as %q", test.want, shapes)
		}
		if got := which(t, err); got != test.want || portal.calls["/kubernetes-versions"] != test.reads || portal.calls["/login"] != test.logins {
			t.Errorf("%q, want %q; calls: %v: %v", got, test.want, portal.calls, err)
		}
	}
}
