// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// script is a portal that expects one request and sends one answer.
type script struct {
	t       *testing.T
	request string // method, path with query, body
	status  int
	body    string
	asked   bool
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/login" {
		return respond(200, `{"token":"token-1","user":{"id":17,"email":"x","role":"User"},"mfaRequired":false}`), nil
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	if got := r.Method + " " + r.URL.RequestURI() + " " + string(body); got != s.request || r.UserAgent() != "mine/1" {
		s.t.Errorf("request of %s\n got %s\nwant %s", r.UserAgent(), got, s.request)
	}
	if hasType := r.Header.Get("Content-Type") == "application/json"; hasType != (body != nil) {
		s.t.Errorf("content type %q with body %q", r.Header.Get("Content-Type"), body)
	}
	s.asked = true
	return respond(s.status, s.body), nil
}

// endpoint is a call of the specification with its request, and with every shape of answer that the specification documents or, where it
// shows none, that is sensible.
type endpoint struct {
	name, request string
	status        int
	bodies        []string
	shapes        []string // that the client reports for each body, or for all of them. If there are none, they are not checked
	want          any
	fails         string // class of the error
	call          func(context.Context, *Client) (any, error)
}

var (
	started = []string{`{"jobId":"j","status":"pending"}`, `{"jobId":"j"}`}
	pending = Job{ID: "j", Status: JobPending}
)

var endpoints = []endpoint{
	{name: "create cluster", status: 202, bodies: append(started, `{"status":"PENDING","jobId":"j","more":[1]}`), want: pending,
		request: `POST /api/kubernetes-clusters {"name":"n","description":"d","zoneId":"z","kubernetesVersionId":"k",` +
			`"serviceOfferingId":"s","size":3,"controlNodes":1,"networkId":"net","vpcId":"vpc","sshKeyPair":"key"}`,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateCluster(ctx, CreateClusterRequest{Name: "n", Description: "d", ZoneID: "z", KubernetesVersionID: "k",
				ServiceOfferingID: "s", Size: 3, ControlNodes: 1, NetworkID: "net", VPCID: "vpc", SSHKeyPair: "key"})
		}},
	{name: "create the smallest cluster", status: 202, bodies: []string{`{"jobId":17,"status":"running"}`}, want: Job{ID: "17", Status: JobRunning},
		request: `POST /api/kubernetes-clusters {"name":"n","description":"","zoneId":"","kubernetesVersionId":"",` +
			`"serviceOfferingId":"","size":0,"controlNodes":0}`,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateCluster(ctx, CreateClusterRequest{Name: "n"})
		}},
	{name: "find clusters", request: `GET /api/kubernetes-clusters?name=a+b `, status: 200,
		bodies: []string{
			`{"kubernetesClusters":[{"id":"1","name":"a b","state":"Running"},{"id":"2","name":"a b c"}]}`,
			`{"clusters":[{"id":"1","name":"a b","state":"Running"}],"count":1}`,
			`[{"id":1,"name":"a b","state":"Running"},{"id":"2"}]`,
		},
		shapes: []string{
			"list under its key, lookup of clusters by name answered",
			"list under another key, lookup of clusters by name answered",
			"list bare, lookup of clusters by name answered",
		},
		want: []Cluster{{ID: "1", Name: "a b", State: "Running"}},
		call: func(ctx context.Context, c *Client) (any, error) { return c.FindClusters(ctx, "a b") }},
	{name: "kubeconfig", request: `GET /api/kubernetes-clusters/c%2F1/config `, status: 200,
		bodies: []string{`{"kubeconfig":"apiVersion: v1\n"}`}, want: []byte("apiVersion: v1\n"),
		call: func(ctx context.Context, c *Client) (any, error) { return c.Kubeconfig(ctx, "c/1") }},
	{name: "scale", request: `POST /api/kubernetes-clusters/c/scale {"size":0}`, status: 202, bodies: started, want: pending,
		call: func(ctx context.Context, c *Client) (any, error) { return c.ScaleCluster(ctx, "c", 0) }},
	{name: "scale without a job", request: `POST /api/kubernetes-clusters/c/scale {"size":0}`, status: 202, bodies: []string{`{}`}, fails: "unknown outcome",
		call: func(ctx context.Context, c *Client) (any, error) { return c.ScaleCluster(ctx, "c", 0) }},
	{name: "upgrade", request: `POST /api/kubernetes-clusters/c/upgrade {"kubernetesVersionId":"v2"}`, status: 202, bodies: started, want: pending,
		call: func(ctx context.Context, c *Client) (any, error) { return c.UpgradeCluster(ctx, "c", "v2") }},
	{name: "delete", request: `DELETE /api/kubernetes-clusters/c `, status: 202, bodies: started, want: pending,
		call: func(ctx context.Context, c *Client) (any, error) { return c.DeleteCluster(ctx, "c") }},
	{name: "versions", request: `GET /api/kubernetes-versions `, status: 200, call: versions,
		bodies: []string{
			`{"versions":[{"id":"1","semanticVersion":"v1.36.3","state":"Enabled"}]}`,
			`[{"id":1,"semanticVersion":"v1.36.3","state":"Enabled","extra":{}}]`,
		},
		want: []KubernetesVersion{{ID: "1", SemanticVersion: "v1.36.3", State: "Enabled"}}},
	{name: "no versions", request: `GET /api/kubernetes-versions `, status: 200, call: versions,
		bodies: []string{`{"versions":[]}`, `{"versions":null}`, `[]`}, want: []KubernetesVersion{}},
	// An empty list would mean that no version is offered.
	{name: "versions that cannot be read", request: `GET /api/kubernetes-versions `, status: 200, call: versions, fails: "unavailable",
		bodies: []string{`null`, `"a"`, `{"a":[],"b":[]}`, `{"versions":{}}`, `{"versions":[{"name":"no id"}]}`, `[[]]`}},
	{name: "VPCs by name", request: `GET /api/vpcs?name=prod `, status: 200,
		bodies: []string{`{"vpcs":[{"id":"1","name":"prod"},{"id":"2","name":"prod-2"}]}`, `[{"id":"1","name":"prod"}]`},
		want:   []VPC{{ID: "1", Name: "prod"}},
		call:   func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "prod") }},
	{name: "VPCs whose names are not shown", request: `GET /api/vpcs?name=prod `, status: 200,
		bodies: []string{`{"vpcs":[{"id":"1"}]}`}, want: []VPC{{ID: "1"}},
		call: func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "prod") }},
	{name: "all VPCs", request: `GET /api/vpcs `, status: 200,
		bodies: []string{`{"vpcs":[{"id":"1","name":"a","cidr":"10.0.0.0/8"},{"id":"2"}]}`},
		want:   []VPC{{ID: "1", Name: "a", CIDR: "10.0.0.0/8"}, {ID: "2"}},
		call:   func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "") }},
	{name: "create VPC", request: `POST /api/vpcs {"name":"n"}`, status: 202, bodies: started, want: pending,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateVPC(ctx, CreateVPCRequest{Name: "n"})
		}},
	{name: "create network at once", request: `POST /api/networks {"cidr":"10.0.0.0/24"}`, status: 201, call: createNetwork,
		bodies: []string{`{"id":"n"}`, `{"network":{"id":"n","cidr":"10.0.0.0/24"}}`, `{"id":"n","vpc":{"id":"other"}}`},
		shapes: []string{"network creation at once"}, want: Created{ID: "n"}},
	{name: "create network by a job", request: `POST /api/networks {"cidr":"10.0.0.0/24"}`, status: 202, call: createNetwork,
		bodies: []string{`{"jobId":"j","status":"pending"}`, `{"jobId":"j","id":"j"}`},
		shapes: []string{"network creation by a job"}, want: Created{Job: pending}},
	{name: "running job", request: `GET /api/jobs/j `, status: 200,
		bodies: []string{`{"jobId":"j","status":"running"}`, `{"status":"Running","error":null}`}, want: Job{ID: "j", Status: JobRunning},
		call: func(ctx context.Context, c *Client) (any, error) { return c.Job(ctx, "j") }},
	{name: "job that succeeded", request: `GET /api/jobs/j `, status: 200,
		bodies: []string{
			`{"jobId":"j","status":"succeeded","result":{"id":"r","network":{"id":"other"}}}`,
			`{"jobId":"j","status":"succeeded","result":{"kubernetesCluster":{"id":"r","name":"n"},"note":"x","list":[1]}}`,
			`{"jobId":"j","status":"succeeded","result":{"cluster":{"id":"r"},"network":{"id":"n"}}}`,
			`{"jobId":"j","status":"succeeded","result":{"resource":{"cluster":{"id":"r"}}}}`,
		},
		shapes: []string{
			"created id at the top", "created id in one nested object", "created id beside other records", "created id one level deeper",
		},
		want: []any{true, false, "r", true},
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			id, ok := job.CreatedID(KindCluster, "")
			return []any{job.Done(), job.Failed(), id, ok}, err
		}},
	{name: "job that failed", request: `GET /api/jobs/j `, status: 200, call: failedJob,
		bodies: []string{
			`{"jobId":"j","status":"failed","error":{"code":"QUOTA_EXCEEDED","message":"too many"}}`,
			`{"jobId":"j","status":"failed","error":{"error":{"code":"QUOTA_EXCEEDED","message":"too many"}}}`,
			`{"jobId":"j","status":"failed","error":"QUOTA_EXCEEDED: too many"}`,
		},
		shapes: []string{"job error object", "job error whole error body", "job error string"},
		want:   []any{true, true, kindQuota, "QUOTA_EXCEEDED: too many"}},
	{name: "job that failed without a reason", request: `GET /api/jobs/j `, status: 200, call: failedJob,
		bodies: []string{`{"status":"failed"}`, `{"status":"failed","error":{}}`, `{"status":"failed","error":[1]}`},
		want:   []any{true, true, kindNone, "no reason can be shown"}},
	{name: "job that failed with half of a reason", request: `GET /api/jobs/j `, status: 200, call: failedJob,
		bodies: []string{`{"status":"failed","error":{"code":"NEW"}}`, `{"status":"failed","error":{"message":"NEW"}}`},
		want:   []any{true, true, kindNone, "NEW"}},
	{name: "instances with fields that the specification does not show", request: `GET /api/instances `, status: 200,
		bodies: []string{`{"instances":[{"id":"1","ip":"10.0.0.7"}]}`}, want: `{"id":"1","ip":"10.0.0.7"}`,
		call: func(ctx context.Context, c *Client) (any, error) {
			list, err := c.Instances(ctx)
			return string(list[0].Raw), err
		}},
	{name: "instances", request: `GET /api/instances `, status: 200,
		bodies: []string{
			`{"instances":[{"id":"1","name":"a","state":"Running"}]}`, `[{"id":"1","name":"a","state":"Running"}]`,
			`{"items":[{"id":"1","name":"a","state":"Running"}],"count":1}`,
		},
		shapes: []string{"list under its key", "list bare", "list under another key"},
		want:   []Instance{{ID: "1", Name: "a", State: "Running"}},
		call:   func(ctx context.Context, c *Client) (any, error) { return c.Instances(ctx) }},
	{name: "instance", request: `GET /api/instances/1 `, status: 200,
		bodies: []string{`{"id":"1","state":"Stopped"}`, `{"instance":{"id":"1","state":"Stopped"}}`}, want: Instance{ID: "1", State: "Stopped"},
		call: func(ctx context.Context, c *Client) (any, error) { return c.Instance(ctx, "1") }},
	{name: "delete volume", request: `DELETE /api/volumes/v `, status: 202, bodies: started, want: pending, call: deleteVolume},
	{name: "delete volume without a job", request: `DELETE /api/volumes/v `, status: 202, bodies: []string{`{}`}, fails: "unknown outcome",
		call: deleteVolume},
	{name: "delete volume at once", request: `DELETE /api/volumes/v `, status: 204, bodies: []string{``}, want: Job{Status: JobSucceeded},
		call: deleteVolume},
	{name: "request password reset", request: `POST /api/reset-password {"email":"a@example.test"}`, status: 200, bodies: []string{``, `{}`},
		call: func(ctx context.Context, c *Client) (any, error) {
			return nil, c.RequestPasswordReset(ctx, "a@example.test")
		}},
	{name: "reset password", request: `POST /api/reset-password/t%2F1 {"password":"new"}`, status: 204, bodies: []string{``},
		call: func(ctx context.Context, c *Client) (any, error) { return nil, c.ResetPassword(ctx, "t/1", "new") }},
	{name: "disable MFA", request: `POST /api/admin/mfa/disable/google `, status: 200, bodies: []string{``, `{}`},
		call: func(ctx context.Context, c *Client) (any, error) { return nil, c.DisableMFA(ctx, "google") }},
}

func versions(ctx context.Context, c *Client) (any, error) { return c.KubernetesVersions(ctx) }

func createNetwork(ctx context.Context, c *Client) (any, error) {
	return c.CreateNetwork(ctx, CreateNetworkRequest{CIDR: "10.0.0.0/24"})
}

func deleteVolume(ctx context.Context, c *Client) (any, error) { return c.DeleteVolume(ctx, "v") }

func failedJob(ctx context.Context, c *Client) (any, error) {
	job, err := c.Job(ctx, "j")
	return []any{job.Done(), job.Failed(), job.Error.kindOf(), job.Error.Error()}, err
}

// mutations returns every call that changes something at the portal, by its name.
func mutations() map[string]func(context.Context, *Client) (any, error) {
	calls := map[string]func(context.Context, *Client) (any, error){}
	for _, e := range endpoints {
		if !strings.HasPrefix(e.request, http.MethodGet) {
			calls[e.name] = e.call
		}
	}
	return calls
}

// TestEndpoints checks that the client sends what the specification says, understands each answer, and reports its shape once.
func TestEndpoints(t *testing.T) {
	raw := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Raw" }, cmp.Ignore())
	for _, test := range endpoints {
		for i, body := range test.bodies {
			t.Run(test.name, func(t *testing.T) {
				portal := &script{t: t, request: test.request, status: test.status, body: body}
				config := testConfig(portal)
				config.BaseURL, config.UserAgent = config.BaseURL+"/api", "mine/1"
				var seen []string
				config.ObserveShape = func(gap, shape string) { seen = append(seen, gap+" "+shape) }
				got, err := test.call(t.Context(), newClient(t, config))
				if which(t, err) != test.fails || !portal.asked {
					t.Fatalf("%s: %v", body, err)
				}
				if n := len(test.shapes); n > 0 && strings.Join(seen, ", ") != test.shapes[min(i, n-1)] {
					t.Errorf("%s: shapes %q", body, seen)
				}
				if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(Error{}), raw); test.fails == "" && diff != "" {
					t.Errorf("%s: (-want +got)\n%s", body, diff)
				}
			})
		}
	}
}
