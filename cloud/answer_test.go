// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"testing"

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
