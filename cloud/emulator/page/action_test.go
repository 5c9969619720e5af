// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestActions checks that a click runs exactly the command that the page offers at that time, and no other.
func TestActions(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	var ran []string
	var failure error
	kubernetes := page.Kubernetes{Clusters: []page.Cluster{{Name: "demo", Actions: []page.Action{{Label: "+1 worker", Command: "kubectl scale … 4"}}}}}
	options := page.Options{
		Portal: p, Kubernetes: func(context.Context) (page.Kubernetes, error) { return kubernetes, nil },
		Act: func(_ context.Context, command string) (string, error) {
			ran = append(ran, command)
			return "scaled", failure
		},
	}
	click := func(r *http.Request) { r.Header.Set("X-Portal-Page", "1") }
	const offered = `{"label": "+1 worker", "command": "kubectl scale … 4"}`
	send := func(handler http.Handler, body string, change func(*http.Request), want int, says string) {
		t.Helper()
		if w := ask(t, handler, "POST", "/actions", body, change); w.Code != want || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s, want %d with %q", body, w.Code, w.Body, want, says)
		}
	}
	handler := page.Handler(options)
	send(handler, offered, click, 200, "scaled")
	send(handler, `{"label": "+1 worker", "command": "kubectl delete namespace default"}`, click, 409, "not offered")
	send(handler, `{`, click, 400, "EOF")
	send(handler, offered, nil, 403, "X-Portal-Page")
	send(handler, offered, func(r *http.Request) { click(r); r.Header.Set("Origin", "http://portal.example") }, 403, "other origins")
	failure = errors.New("no such object")
	send(handler, offered, click, 502, "no such object")
	kubernetes.Clusters = []page.Cluster{{Name: "demo", Actions: []page.Action{{Label: "+1 worker", Command: "kubectl scale … 5"}}}}
	send(handler, offered, click, 409, "has changed")

	options.ReadOnly = true
	send(page.Handler(options), offered, click, 403, "read-only")
	send(page.Handler(page.Options{Portal: p}), offered, click, 404, "no actions")
	if got := strings.Join(ran, ", "); got != "kubectl scale … 4, kubectl scale … 4" {
		t.Errorf("the page ran %s", got)
	}
}
