// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// newPortal returns a portal that is closed when its test, or its bubble, ends.
func newPortal(t *testing.T, opts emulator.Options) *emulator.Portal {
	t.Helper()
	p, err := emulator.New(opts)
	must(t, err)
	t.Cleanup(p.Close)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// caller sends requests in the wire format, so that the tests depend only on the specification.
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
	must(c.t, err)
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

// reply is the answer to a call.
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

// at follows keys and indexes into the body. It returns nil if one is missing.
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

// text returns a required string.
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

// refused checks that the answer has the documented error shape.
func (r *reply) refused(status int, code string) *reply {
	r.t.Helper()
	r.want(status).has(code, "error", "code")
	r.text("error", "message")
	r.text("error", "requestId")
	return r
}

// clusterRequest is the body of a create call. Tests may change its fields.
type clusterRequest map[string]any

// newCluster returns a valid create call for the account's default VPC and a new network.
func (c *caller) newCluster(size int) clusterRequest {
	c.t.Helper()
	return clusterRequest{
		"name": "demo", "description": "a test", "zoneId": "zone-1", "kubernetesVersionId": c.p.Versions()[0].ID,
		"serviceOfferingId": "offering-1", "size": size, "controlNodes": 1, "sshKeyPair": "key",
		"vpcId": c.get("/vpcs?name=default").want(200).text("vpcs", 0, "id"),
	}
}

func (r clusterRequest) with(field string, value any) clusterRequest {
	r[field] = value
	return r
}

func (r clusterRequest) String() string {
	out, err := json.Marshal(map[string]any(r))
	if err != nil {
		panic(err)
	}
	return string(out)
}

// create creates a cluster and waits for it.
func (c *caller) create(request clusterRequest) (id string) {
	c.t.Helper()
	job := c.post("/kubernetes-clusters", request.String()).want(202).text("jobId")
	return c.wait(job).has("succeeded", "status").text("result", "kubernetesCluster", "id")
}

// wait polls a job every 5 seconds of virtual time until the job ends.
func (c *caller) wait(job string) *reply {
	c.t.Helper()
	for range 100 {
		r := c.get("/jobs/" + job).want(200)
		if status := r.text("status"); status == "succeeded" || status == "failed" {
			return r
		}
		time.Sleep(5 * time.Second)
	}
	c.t.Fatalf("job %s does not end", job)
	return nil
}

// scale scales a cluster and waits for the job.
func (c *caller) scale(id string, size int) *reply {
	c.t.Helper()
	return c.wait(c.post("/kubernetes-clusters/"+id+"/scale", fmt.Sprintf(`{"size":%d}`, size)).want(202).text("jobId"))
}

// upgrade upgrades a cluster and waits for the job.
func (c *caller) upgrade(id, version string) *reply {
	c.t.Helper()
	return c.wait(c.post("/kubernetes-clusters/"+id+"/upgrade", c.versionBody(version)).want(202).text("jobId"))
}

func (c *caller) versionBody(version string) string {
	c.t.Helper()
	for _, v := range c.p.Versions() {
		if v.SemanticVersion == version {
			return fmt.Sprintf(`{"kubernetesVersionId":%q}`, v.ID)
		}
	}
	c.t.Fatalf("version %s is not offered", version)
	return ""
}

// workers returns the workers of the portal's first cluster, oldest first.
func workers(p *emulator.Portal) []string {
	names := []string{}
	for _, n := range p.Clusters()[0].Nodes {
		if !n.ControlPlane && !n.Gone {
			names = append(names, n.Name)
		}
	}
	return names
}

// bubble runs a test in virtual time, with a portal and its logged-in first user.
func bubble(t *testing.T, opts emulator.Options, run func(t *testing.T, p *emulator.Portal, c *caller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, opts)
		run(t, p, login(t, p))
	})
}

// mark is how tests write down which of several calls a fault struck.
func mark(struck bool) string {
	if struck {
		return "x"
	}
	return "."
}
