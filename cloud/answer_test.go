// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestUnreadableAnswersToReads checks that an incomplete answer to a read is an error and never an empty result, because an empty list
// would mean that the resource does not exist.
func TestUnreadableAnswersToReads(t *testing.T) {
	for _, body := range []string{``, `x`, `null`, `{}`, `"a"`, `{"a":[],"b":[]}`, `{"versions":{}}`, `{"versions":[{"name":"no id"}]}`, `[[]]`} {
		c := newClient(t, testConfig(answersWith(200, body)))
		for name, call := range map[string]func() error{
			"versions":   func() error { _, err := c.KubernetesVersions(t.Context()); return err },
			"VPCs":       func() error { _, err := c.VPCs(t.Context(), ""); return err },
			"kubeconfig": func() error { _, err := c.Kubeconfig(t.Context(), "c"); return err },
			"job":        func() error { _, err := c.Job(t.Context(), "c"); return err },
			"instance":   func() error { _, err := c.Instance(t.Context(), "c"); return err },
		} {
			if err := call(); !IsUnavailable(err) {
				t.Errorf("%s answered %s: %v", name, body, err)
			}
		}
	}
}

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

// TestAcceptedWithoutAJob checks that the outcome of a change is unknown if the portal accepts it and names no job. Two calls need no body.
func TestAcceptedWithoutAJob(t *testing.T) {
	quiet := map[string]bool{"reset password": true, "disable mfa": true}
	for name, call := range mutations(newClient(t, testConfig(answersWith(202, `{}`)))) {
		if err := call(t.Context()); IsUnknownOutcome(err) == quiet[name] {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBodyOfTheLargestSize checks that a body of the maximum size is read, and that one more byte is too large.
func TestBodyOfTheLargestSize(t *testing.T) {
	for _, test := range []struct {
		size  int
		fails bool
	}{{maxBody, false}, {maxBody + 1, true}} {
		if _, err := readBounded(bytes.NewReader(make([]byte, test.size))); (err != nil) != test.fails {
			t.Errorf("%d bytes: %v", test.size, err)
		}
	}
	for status, ok := range map[int]bool{199: false, 200: true, 299: true, 300: false} {
		if (&answer{status: status}).ok() != ok {
			t.Errorf("status %d is a success: %v", status, !ok)
		}
	}
}

// TestFlightThatComesTooLate checks that a new flight uses the token of the flight that ended just before. A caller may have read the
// session before that end.
func TestFlightThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newByPath(nil)
		s := newClient(t, testConfig(portal)).session
		s.current = schedule("token-0", Login{UserID: "u"}, time.Now())
		if g, err := s.login(t.Context()); err != nil || g.token.reveal() != "token-0" || portal.calls["/login"] != 0 {
			t.Errorf("%v, %v after %d logins", g, err, portal.calls["/login"])
		}
		time.Sleep(7*time.Hour + time.Minute) // due for a refresh
		if g, err := s.login(t.Context()); err != nil || g.token.reveal() != "token-1" {
			t.Errorf("%v, %v", g, err)
		}
		s.refusal = failure{err: &Error{kind: kindUnauthorized}, until: time.Now().Add(time.Minute)}
		if g, err := s.login(t.Context()); g != nil || !IsUnauthorized(err) || portal.calls["/login"] != 1 {
			t.Errorf("%v, %v after %d logins", g, err, portal.calls["/login"])
		}
	})
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
		{`{"cluster":{"id":"c"},"network":{"id":"n"}}`, KindVPC, "", ""},
		{`{"cluster":{"id":"c"},"network":{"id":"n"}}`, "", "", ""},
		{`{"network":{"id":"n"}}`, KindCluster, "", ""},
		{`{"network":{"id":"n"}}`, "", "", "n"},
		{`{"record":{"id":"r"}}`, KindCluster, "", "r"},
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
		{`{"a":{"owner":{"id":"2"}},"b":{"id":"1"}}`, KindCluster, "", "1"},
		{`{"a":[{"id":"2"}],"b":{"id":"1"}}`, KindCluster, "", "1"},
		{`{"kubernetesCluster":{"id":"c","name":"mine"},"network":{"id":"n"}}`, KindCluster, "mine", "c"},
		{`{"kubernetesCluster":{"id":"c","name":"mine"},"network":{"id":"n","name":"its network"}}`, KindCluster, "mine", "c"},
		{`{"resource":{"kubernetesCluster":{"id":"c","name":"mine"},"network":{"id":"n"}}}`, KindCluster, "mine", "c"},
		{`{"id":"operation","kubernetesCluster":{"id":"c","name":"mine"}}`, KindCluster, "mine", "c"},
		{`{"resources":[{"id":"n"},{"id":"c","name":"mine"}]}`, KindCluster, "mine", "c"},
		{`{"kubernetesCluster":{"id":"c"},"network":{"id":"n"}}`, KindCluster, "mine", "c"},
		{`{"data":{"cluster":{"id":"c"},"vpc":{"id":"v"}}}`, KindCluster, "mine", "c"},
		{`{"id":"c"}`, KindCluster, "mine", "c"},
		{`{"id":7}`, KindCluster, "mine", "7"},
		{`{"a":{"id":"1","name":"mine"},"b":{"id":"2","name":"mine"}}`, KindCluster, "mine", ""},
		{`{"cluster":{"id":"1"},"kubernetesCluster":{"id":"2"}}`, KindCluster, "mine", ""},
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

// TestTextOfTheLargestLength checks that a text of the maximum length is not shortened, that it loses secrets, and that a token without a
// lifetime counts as one without an expiry.
func TestTextOfTheLargestLength(t *testing.T) {
	for length, want := range map[int]string{127: strings.Repeat("x", 127), 128: strings.Repeat("x", 128), 129: strings.Repeat("x", 127) + "…"} {
		if got := clean(strings.Repeat("x", length), 128, nil); got != want {
			t.Errorf("%d characters become %q", length, got)
		}
	}
	if got := clean("the password is s3cret", 128, []string{"s3cret"}); strings.Contains(got, "s3cret") {
		t.Errorf("a secret stays: %q", got)
	}
	now := time.Now()
	for life, want := range map[time.Duration]time.Duration{
		-time.Second: tokenLifetime, 0: tokenLifetime, time.Second: time.Second, tokenLifetime: tokenLifetime, 9 * time.Hour: tokenLifetime,
	} {
		if got := lifetime(Login{Issued: now, Expires: now.Add(life)}, now); got != want {
			t.Errorf("a life of %v counts as %v", life, got)
		}
	}
}

// TestLookup checks how the client reads the answer of the undocumented endpoint. If it refuses the token, the client sends a documented read,
// whose answer decides whether the token is invalid, and then logs in again. A refused login is not taken for the endpoint's answer. In all
// other cases the client sends no such read. It reports once that a portal does not answer.
func TestLookup(t *testing.T) {
	refused := always(401, `{"error":{"code":"INVALID_TOKEN"}}`)
	for _, test := range []struct {
		question, read, login func(*http.Request) *http.Response // the answers. The first login succeeds
		want                  string
		reads, logins         int
	}{
		{always(401, ``), always(200, `{"versions":[]}`), nil, "unsupported", 1, 1},
		{always(403, `{"error":{"code":"MFA_REQUIRED"}}`), always(403, `{"error":{"code":"FORBIDDEN"}}`), nil, "unsupported", 1, 1},
		{always(401, ``), always(503, ``), nil, "unavailable", 1, 1},
		{always(401, ``), always(429, ``), nil, "rate limited", 1, 1},
		{always(404, ``), always(503, ``), nil, "unsupported", 0, 1},
		{always(200, `{}`), nil, nil, "unsupported", 0, 1},
		{always(200, `{"kubernetesClusters":[{"name":"no id"}]}`), nil, nil, "unsupported", 0, 1},
		{refused, refused, always(200, `<html>`), "not portal", 1, 2},
		{refused, refused, always(403, `{"error":{"code":"MFA_REQUIRED"}}`), "mfa", 1, 2},
		{refused, refused, always(401, ``), "unauthorized", 1, 2},
	} {
		portal := newByPath(nil)
		portal.serve = map[string]func(*http.Request) *http.Response{
			"/kubernetes-clusters": test.question, "/kubernetes-versions": test.read,
			"/login": func(r *http.Request) *http.Response {
				if portal.calls["/login"] == 1 {
					return respond(200, `{"token":"t","user":{"id":"u"}}`)
				}
				return test.login(r)
			},
		}
		config, unknown := testConfig(portal), 0
		config.ObserveShape = func(gap, shape string) {
			if gap == gapFind && shape == findUnknown {
				unknown++
			}
		}
		_, err := newClient(t, config).FindClusters(t.Context(), "n")
		if (unknown == 1) != (test.want == "unsupported") {
			t.Errorf("%q: the shape was reported %d times", test.want, unknown)
		}
		if got := which(t, err); got != test.want || portal.calls["/kubernetes-versions"] != test.reads || portal.calls["/login"] != test.logins {
			t.Errorf("%q, want %q; calls: %v: %v", got, test.want, portal.calls, err)
		}
	}
}

// TestUserAgent checks that the client sends its own User-Agent unless the configuration sets another.
func TestUserAgent(t *testing.T) {
	for given, want := range map[string]string{"": defaultUserAgent, "mine/1": "mine/1"} {
		config := testConfig(newByPath(map[string]func(*http.Request) *http.Response{"/vpcs": func(r *http.Request) *http.Response {
			return respond(200, fmt.Sprintf(`{"vpcs":[{"id":%q}]}`, r.UserAgent()))
		}}))
		config.UserAgent = given
		if vpcs, err := newClient(t, config).VPCs(t.Context(), ""); err != nil || vpcs[0].ID != want {
			t.Errorf("%+v, want %q: %v", vpcs, want, err)
		}
	}
}
