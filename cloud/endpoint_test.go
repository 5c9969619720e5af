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
	if got := r.Method + " " + r.URL.RequestURI() + " " + string(body); got != s.request {
		s.t.Errorf("request\n got %s\nwant %s", got, s.request)
	}
	if hasType := r.Header.Get("Content-Type") == "application/json"; hasType != (body != nil) {
		s.t.Errorf("content type %q with body %q", r.Header.Get("Content-Type"), body)
	}
	s.asked = true
	return respond(s.status, s.body), nil
}

// endpoints are the calls of the specification, each with its request and with every shape of answer that the specification documents or,
// where it shows none, that is sensible.
var endpoints = []struct {
	name    string
	call    func(context.Context, *Client) (any, error)
	request string
	status  int
	bodies  []string
	shapes  []string // that the client reports for each body, or for all of them. If there are none, they are not checked
	want    any
}{
	{
		name: "create cluster", status: 202,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateCluster(ctx, CreateClusterRequest{Name: "n", Description: "d", ZoneID: "z", KubernetesVersionID: "k",
				ServiceOfferingID: "s", Size: 3, ControlNodes: 1, NetworkID: "net", VPCID: "vpc", SSHKeyPair: "key"})
		},
		request: `POST /api/kubernetes-clusters {"name":"n","description":"d","zoneId":"z","kubernetesVersionId":"k",` +
			`"serviceOfferingId":"s","size":3,"controlNodes":1,"networkId":"net","vpcId":"vpc","sshKeyPair":"key"}`,
		bodies: []string{`{"jobId":"j","status":"pending"}`, `{"jobId":"j"}`, `{"status":"PENDING","jobId":"j","more":[1]}`},
		want:   Job{ID: "j", Status: JobPending},
	},
	{
		name: "create the smallest cluster", status: 202,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateCluster(ctx, CreateClusterRequest{Name: "n"})
		},
		request: `POST /api/kubernetes-clusters {"name":"n","description":"","zoneId":"","kubernetesVersionId":"",` +
			`"serviceOfferingId":"","size":0,"controlNodes":0}`,
		bodies: []string{`{"jobId":17,"status":"running"}`},
		want:   Job{ID: "17", Status: JobRunning},
	},
	{
		name: "find clusters", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.FindClusters(ctx, "a b") },
		request: `GET /api/kubernetes-clusters?name=a+b `,
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
	},
	{
		name: "kubeconfig", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			b, err := c.Kubeconfig(ctx, "c/1")
			return string(b), err
		},
		request: `GET /api/kubernetes-clusters/c%2F1/config `,
		bodies:  []string{`{"kubeconfig":"apiVersion: v1\n"}`},
		want:    "apiVersion: v1\n",
	},
	{
		name: "scale", status: 202,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.ScaleCluster(ctx, "c", 0) },
		request: `POST /api/kubernetes-clusters/c/scale {"size":0}`,
		bodies:  []string{`{"jobId":"j","status":"pending"}`},
		want:    Job{ID: "j", Status: JobPending},
	},
	{
		name: "upgrade", status: 202,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.UpgradeCluster(ctx, "c", "v2") },
		request: `POST /api/kubernetes-clusters/c/upgrade {"kubernetesVersionId":"v2"}`,
		bodies:  []string{`{"jobId":"j","status":"pending"}`},
		want:    Job{ID: "j", Status: JobPending},
	},
	{
		name: "delete", status: 202,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.DeleteCluster(ctx, "c") },
		request: `DELETE /api/kubernetes-clusters/c `,
		bodies:  []string{`{"jobId":"j","status":"pending"}`},
		want:    Job{ID: "j", Status: JobPending},
	},
	{
		name: "versions", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.KubernetesVersions(ctx) },
		request: `GET /api/kubernetes-versions `,
		bodies: []string{
			`{"versions":[{"id":"1","semanticVersion":"v1.36.3","state":"Enabled"}]}`,
			`[{"id":1,"semanticVersion":"v1.36.3","state":"Enabled","extra":{}}]`,
			`{"kubernetesVersions":[{"id":"1","semanticVersion":"v1.36.3","state":"Enabled"}],"count":1}`,
		},
		want: []KubernetesVersion{{ID: "1", SemanticVersion: "v1.36.3", State: "Enabled"}},
	},
	{
		name: "no versions", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.KubernetesVersions(ctx) },
		request: `GET /api/kubernetes-versions `,
		bodies:  []string{`{"versions":[]}`, `{"versions":null}`, `[]`},
		want:    []KubernetesVersion{},
	},
	{
		name: "VPCs by name", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "prod") },
		request: `GET /api/vpcs?name=prod `,
		bodies: []string{
			`{"vpcs":[{"id":"1","name":"prod"},{"id":"2","name":"prod-2"}]}`,
			`[{"id":"1","name":"prod"}]`,
		},
		want: []VPC{{ID: "1", Name: "prod"}},
	},
	{
		name: "VPCs whose names are not shown", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "prod") },
		request: `GET /api/vpcs?name=prod `,
		bodies:  []string{`{"vpcs":[{"id":"1"}]}`},
		want:    []VPC{{ID: "1"}},
	},
	{
		name: "all VPCs", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.VPCs(ctx, "") },
		request: `GET /api/vpcs `,
		bodies:  []string{`{"vpcs":[{"id":"1","name":"a","cidr":"10.0.0.0/8"},{"id":"2"}]}`},
		want:    []VPC{{ID: "1", Name: "a", CIDR: "10.0.0.0/8"}, {ID: "2"}},
	},
	{
		name: "create VPC", status: 202,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateVPC(ctx, CreateVPCRequest{Name: "n"})
		},
		request: `POST /api/vpcs {"name":"n"}`,
		bodies:  []string{`{"jobId":"j","status":"pending"}`},
		want:    Job{ID: "j", Status: JobPending},
	},
	{
		name: "create network at once", status: 201,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateNetwork(ctx, CreateNetworkRequest{CIDR: "10.0.0.0/24"})
		},
		request: `POST /api/networks {"cidr":"10.0.0.0/24"}`,
		bodies:  []string{`{"id":"n"}`, `{"network":{"id":"n","cidr":"10.0.0.0/24"}}`, `{"id":"n","vpc":{"id":"other"}}`},
		shapes:  []string{"network creation at once"},
		want:    Created{ID: "n"},
	},
	{
		name: "create network by a job", status: 202,
		call: func(ctx context.Context, c *Client) (any, error) {
			return c.CreateNetwork(ctx, CreateNetworkRequest{CIDR: "10.0.0.0/24"})
		},
		request: `POST /api/networks {"cidr":"10.0.0.0/24"}`,
		bodies:  []string{`{"jobId":"j","status":"pending"}`, `{"jobId":"j","id":"j"}`},
		shapes:  []string{"network creation by a job"},
		want:    Created{Job: Job{ID: "j", Status: JobPending}},
	},
	{
		name: "running job", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.Job(ctx, "j") },
		request: `GET /api/jobs/j `,
		bodies:  []string{`{"jobId":"j","status":"running"}`, `{"status":"Running","error":null}`},
		want:    Job{ID: "j", Status: JobRunning},
	},
	{
		name: "job that succeeded", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			id, ok := job.CreatedID("", "")
			return []any{job.Done(), job.Failed(), id, ok}, err
		},
		request: `GET /api/jobs/j `,
		bodies: []string{
			`{"jobId":"j","status":"succeeded","result":{"id":"r"}}`,
			`{"jobId":"j","status":"succeeded","result":{"vpc":{"id":"r"}}}`,
			`{"jobId":"j","status":"succeeded","result":{"kubernetesCluster":{"id":"r","name":"n"},"note":"x","list":[1]}}`,
			`{"jobId":"j","status":"succeeded","result":{"id":"r","network":{"id":"other"}}}`,
			`{"jobId":"j","status":"succeeded","result":{"resource":{"vpc":{"id":"r"}}}}`,
		},
		shapes: []string{
			"created id at the top", "created id in one nested object", "created id in one nested object", "created id at the top",
			"created id one level deeper",
		},
		want: []any{true, false, "r", true},
	},
	{
		name: "job that succeeded without an id", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			id, ok := job.CreatedID("", "")
			return []any{job.Done(), job.Failed(), id, ok}, err
		},
		request: `GET /api/jobs/j `,
		bodies: []string{
			`{"jobId":"j","status":"succeeded"}`, `{"jobId":"j","status":"succeeded","result":null}`,
			`{"jobId":"j","status":"succeeded","result":{"a":{"id":"1"},"b":{"id":"2"}}}`,
			`{"jobId":"j","status":"succeeded","result":"r"}`,
		},
		want: []any{true, false, "", false},
	},
	{
		name: "job that succeeded with two ids", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			id, _ := job.CreatedID(KindCluster, "")
			return id, err
		},
		request: `GET /api/jobs/j `,
		bodies:  []string{`{"status":"succeeded","result":{"cluster":{"id":"c"},"network":{"id":"n"}}}`},
		shapes:  []string{"created id beside other records"},
		want:    "c",
	},
	{
		name: "job that failed", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			return []any{job.Failed(), IsQuota(job.Error), job.Error.Error()}, err
		},
		request: `GET /api/jobs/j `,
		bodies: []string{
			`{"jobId":"j","status":"failed","error":{"code":"QUOTA_EXCEEDED","message":"too many"}}`,
			`{"jobId":"j","status":"failed","error":{"error":{"code":"QUOTA_EXCEEDED","message":"too many"}}}`,
			`{"jobId":"j","status":"failed","error":"QUOTA_EXCEEDED: too many"}`,
		},
		shapes: []string{"job error object", "job error whole error body", "job error string"},
		want:   []any{true, true, "QUOTA_EXCEEDED: too many"},
	},
	{
		name: "job that failed without a reason", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			return job.Error.Error(), err
		},
		request: `GET /api/jobs/j `,
		bodies:  []string{`{"status":"failed"}`, `{"status":"failed","error":{}}`, `{"status":"failed","error":[1]}`},
		want:    "no reason can be shown",
	},
	{
		name: "job that failed with half of a reason", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			job, err := c.Job(ctx, "j")
			return job.Error.Error(), err
		},
		request: `GET /api/jobs/j `,
		bodies:  []string{`{"status":"failed","error":{"code":"X"}}`, `{"status":"failed","error":{"message":"X"}}`},
		want:    "X",
	},
	{
		name: "instances with fields that the specification does not show", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			list, err := c.Instances(ctx)
			return string(list[0].Raw), err
		},
		request: `GET /api/instances `,
		bodies:  []string{`{"instances":[{"id":"1","ip":"10.0.0.7"}]}`},
		want:    `{"id":"1","ip":"10.0.0.7"}`,
	},
	{
		name: "instances", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.Instances(ctx) },
		request: `GET /api/instances `,
		bodies: []string{
			`{"instances":[{"id":"1","name":"a","state":"Running"}]}`, `[{"id":"1","name":"a","state":"Running"}]`,
			`{"items":[{"id":"1","name":"a","state":"Running"}],"count":1}`,
		},
		shapes: []string{"list under its key", "list bare", "list under another key"},
		want:   []Instance{{ID: "1", Name: "a", State: "Running"}},
	},
	{
		name: "instance", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.Instance(ctx, "1") },
		request: `GET /api/instances/1 `,
		bodies:  []string{`{"id":"1","state":"Stopped"}`, `{"instance":{"id":"1","state":"Stopped"}}`},
		want:    Instance{ID: "1", State: "Stopped"},
	},
	{
		name: "delete volume", status: 202,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.DeleteVolume(ctx, "v") },
		request: `DELETE /api/volumes/v `,
		bodies:  []string{`{"jobId":"j","status":"pending"}`, `{"jobId":"j"}`},
		want:    Job{ID: "j", Status: JobPending},
	},
	{
		name: "delete volume at once", status: 204,
		call:    func(ctx context.Context, c *Client) (any, error) { return c.DeleteVolume(ctx, "v") },
		request: `DELETE /api/volumes/v `,
		bodies:  []string{``},
		want:    Job{Status: JobSucceeded},
	},
	{
		name: "request password reset", status: 200,
		call: func(ctx context.Context, c *Client) (any, error) {
			return nil, c.RequestPasswordReset(ctx, "a@example.test")
		},
		request: `POST /api/reset-password {"email":"a@example.test"}`,
		bodies:  []string{``, `{}`, `{"message":"sent"}`},
	},
	{
		name: "reset password", status: 204,
		call:    func(ctx context.Context, c *Client) (any, error) { return nil, c.ResetPassword(ctx, "t/1", "new") },
		request: `POST /api/reset-password/t%2F1 {"password":"new"}`,
		bodies:  []string{``},
	},
	{
		name: "disable MFA", status: 200,
		call:    func(ctx context.Context, c *Client) (any, error) { return nil, c.DisableMFA(ctx, "google") },
		request: `POST /api/admin/mfa/disable/google `,
		bodies:  []string{``, `{}`},
	},
}

// TestEndpoints checks that the client sends what the specification says, understands each answer, and reports its shape once.
func TestEndpoints(t *testing.T) {
	raw := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Raw" }, cmp.Ignore())
	for _, test := range endpoints {
		for i, body := range test.bodies {
			t.Run(test.name, func(t *testing.T) {
				portal := &script{t: t, request: test.request, status: test.status, body: body}
				config := testConfig(portal)
				config.BaseURL += "/api"
				var seen []string
				config.ObserveShape = func(gap, shape string) { seen = append(seen, gap+" "+shape) }
				got, err := test.call(t.Context(), newClient(t, config))
				if err != nil || !portal.asked {
					t.Fatalf("%s: %v", body, err)
				}
				if n := len(test.shapes); n > 0 && strings.Join(seen, ", ") != test.shapes[min(i, n-1)] {
					t.Errorf("%s: shapes %q", body, seen)
				}
				if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(Error{}), raw); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", body, diff)
				}
			})
		}
	}
}
