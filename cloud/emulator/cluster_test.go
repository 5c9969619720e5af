// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestCreateRefused checks the status and the field of each refused create call.
func TestCreateRefused(t *testing.T) {
	opts := emulator.Options{Zones: []string{"zone-1"}, ServiceOfferings: []string{"offering-1"}, SSHKeyPairs: []string{"key"}, MinWorkers: 1}
	p := newPortal(t, opts)
	c := login(t, p)
	for _, field := range []string{"name", "description", "zoneId", "kubernetesVersionId", "serviceOfferingId", "size", "controlNodes", "vpcId", "sshKeyPair"} {
		t.Run("without "+field, func(t *testing.T) {
			c := &caller{t: t, p: p, token: c.token}
			c.post("/kubernetes-clusters", c.newCluster(1).without(field).String()).refused(400, emulator.CodeInvalidParameter).has(field, "error", "field")
		})
	}
	for _, test := range []struct {
		field  string
		value  any
		status int
		code   string
	}{
		{"name", "Demo", 400, emulator.CodeInvalidParameter},
		{"name", strings.Repeat("a", 64), 400, emulator.CodeInvalidParameter},
		{"name", "-demo", 400, emulator.CodeInvalidParameter},
		{"name", "demo-", 400, emulator.CodeInvalidParameter},
		{"zoneId", "zone-2", 400, emulator.CodeInvalidParameter},
		{"kubernetesVersionId", "v1.36.3", 400, emulator.CodeInvalidParameter},
		{"serviceOfferingId", "other", 400, emulator.CodeInvalidParameter},
		{"size", -1, 400, emulator.CodeInvalidParameter},
		{"size", 0, 422, emulator.CodeInvalidParameter},
		{"size", 51, 422, emulator.CodeQuotaExceeded},
		{"controlNodes", 0, 400, emulator.CodeInvalidParameter},
		{"controlNodes", 8, 422, emulator.CodeInvalidParameter},
		{"vpcId", "other", 400, emulator.CodeInvalidParameter},
		{"networkId", "other", 400, emulator.CodeInvalidParameter},
		{"sshKeyPair", "other", 400, emulator.CodeInvalidParameter},
	} {
		t.Run(fmt.Sprint(test.field, "=", test.value), func(t *testing.T) {
			c := &caller{t: t, p: p, token: c.token}
			c.post("/kubernetes-clusters", c.newCluster(1).with(test.field, test.value).String()).
				refused(test.status, test.code).has(test.field, "error", "field")
		})
	}
	if n := len(p.Clusters()) + len(p.Jobs()) + len(p.Networks()); n != 0 {
		t.Errorf("refused requests created %d records", n)
	}
}

// TestClusterRecord checks that the request's values are in the job's result and in the portal's records.
func TestClusterRecord(t *testing.T) {
	bubble(t, emulator.Options{Workloads: &ledger{}}, func(t *testing.T, p *emulator.Portal, c *caller) {
		request := c.newCluster(3).with("controlNodes", 3)
		r := c.wait(c.post("/kubernetes-clusters", request.String()).want(202).has("pending", "status").text("jobId"))
		for field, want := range request {
			if n, isInt := want.(int); isInt {
				want = float64(n)
			}
			r.has(want, "result", "kubernetesCluster", field)
		}
		got := p.Clusters()[0]
		if got.State != emulator.ClusterRunning || got.Size != 3 || len(got.Nodes) != 6 || got.JobID != "" {
			t.Errorf("cluster %+v", got)
		}
		c.get("/kubernetes-clusters/"+got.ID+"/config").want(200).has("kubeconfig of "+got.ID, "kubeconfig")
	})
}

// TestStates checks which operations a cluster's state forbids, and which other operations a running one blocks (States and transitions 2
// and 3).
func TestStates(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		change := func(id string) map[string]*reply {
			return map[string]*reply{
				"scale":   c.post("/kubernetes-clusters/"+id+"/scale", `{"size":2}`),
				"upgrade": c.post("/kubernetes-clusters/"+id+"/upgrade", c.versionBody("v1.36.3")),
				"delete":  c.delete("/kubernetes-clusters/" + id),
			}
		}
		create := c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")
		id := p.Clusters()[0].ID
		for _, wait := range []time.Duration{0, 2 * time.Second} { // pending, running
			time.Sleep(wait)
			for _, r := range change(id) {
				r.refused(409, emulator.CodeResourceBusy)
			}
			c.get("/kubernetes-clusters/"+id+"/config").refused(409, emulator.CodeOperationNotAllowed)
		}
		c.wait(create)
		for name, start := range map[string]func() *reply{
			"scale":   func() *reply { return c.post("/kubernetes-clusters/"+id+"/scale", `{"size":2}`) },
			"upgrade": func() *reply { return c.post("/kubernetes-clusters/"+id+"/upgrade", c.versionBody("v1.36.3")) },
		} {
			job := start().want(202).text("jobId")
			for other, r := range change(id) {
				if r.status != 409 {
					t.Errorf("%s during %s: %d", other, name, r.status)
				}
				r.refused(409, emulator.CodeResourceBusy)
			}
			c.get("/kubernetes-clusters/" + id + "/config").want(200)
			c.wait(job).has("succeeded", "status")
		}
		remove := c.delete("/kubernetes-clusters/" + id).want(202).text("jobId")
		for _, r := range change(id) {
			r.refused(409, emulator.CodeResourceBusy)
		}
		c.get("/kubernetes-clusters/"+id+"/config").refused(409, emulator.CodeOperationNotAllowed)
		c.wait(remove)
		for _, r := range change(id) {
			r.refused(404, emulator.CodeResourceNotFound)
		}
	})
}

// TestCreateTwice checks that the same request creates two clusters: names are not unique, and idempotency keys are not supported (Limits
// 4).
func TestCreateTwice(t *testing.T) {
	bubble(t, emulator.Options{MaxClusters: 2}, func(t *testing.T, _ *emulator.Portal, c *caller) {
		if first, second := c.create(c.newCluster(1)), c.create(c.newCluster(1)); first == second {
			t.Error("two requests created one cluster")
		}
		c.post("/kubernetes-clusters", c.newCluster(1).String()).refused(422, emulator.CodeQuotaExceeded)
	})
}

// TestScaleBounds checks that a cluster has at most 50 workers, unless Options.MaxWorkers says otherwise (Limits).
func TestScaleBounds(t *testing.T) {
	bubble(t, emulator.Options{MaxWorkers: 5}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":6}`).refused(422, emulator.CodeQuotaExceeded)
		c.scale(id, 5).has("succeeded", "status")
		c.scale(id, 5).has("succeeded", "status") // no change
		c.scale(id, 0).has("succeeded", "status")
		if got := p.Clusters()[0]; got.Size != 0 || len(got.Nodes) != 1 {
			t.Errorf("cluster %+v", got)
		}
	})
}

// TestUpgradeRefused checks that downgrades and upgrades to versions that are not offered are refused.
func TestUpgradeRefused(t *testing.T) {
	bubble(t, emulator.Options{}, func(_ *testing.T, _ *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		c.post("/kubernetes-clusters/"+id+"/upgrade", `{"kubernetesVersionId":"none"}`).refused(400, emulator.CodeInvalidParameter).has("kubernetesVersionId", "error", "field")
		c.upgrade(id, "v1.35.6").has("succeeded", "status")
		c.upgrade(id, "v1.35.6").has("succeeded", "status") // no change
		c.post("/kubernetes-clusters/"+id+"/upgrade", c.versionBody("v1.34.9")).refused(422, emulator.CodeInvalidParameter).has("kubernetesVersionId", "error", "field")
	})
}

// TestWorkloadFailure checks that clusters that cannot be built become Failed and can only be deleted.
func TestWorkloadFailure(t *testing.T) {
	l := &ledger{fails: errors.New("no machine left")}
	bubble(t, emulator.Options{Workloads: l}, func(t *testing.T, p *emulator.Portal, c *caller) {
		c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).
			has("failed", "status").has(emulator.CodeInternalError, "error", "code").has(nil, "result")
		id := p.Clusters()[0].ID
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":2}`).refused(409, emulator.CodeOperationNotAllowed)
		c.get("/kubernetes-clusters/"+id+"/config").refused(409, emulator.CodeOperationNotAllowed)
		c.wait(c.delete("/kubernetes-clusters/"+id).want(202).text("jobId")).has("succeeded", "status")
		if diff := cmp.Diff([]string{id}, l.deletions()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestDurations checks that a job takes as long as its options say, or as its workload cluster takes if that is longer.
func TestDurations(t *testing.T) {
	for _, test := range []struct{ option, workload, want time.Duration }{
		{time.Minute, time.Second, time.Minute}, {time.Second, time.Minute, time.Minute}, {-1, 0, 0},
	} {
		opts := emulator.Options{Workloads: &ledger{takes: test.workload}, Durations: emulator.Durations{Pending: -1, Create: test.option}}
		bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
			c.create(c.newCluster(1))
			job := p.Jobs()[0]
			if got := job.Ended.Sub(job.Accepted); got != test.want {
				t.Errorf("options %s, workload %s: the job took %s", test.option, test.workload, got)
			}
		})
	}
}

// TestInstances checks the machines of nodes. They are Stopped while they are created and removed.
func TestInstances(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		states := func() (out []string) {
			for _, i := range p.Instances() {
				out = append(out, string(i.State))
			}
			return out
		}
		job := c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"Stopped", "Stopped"}, states()); diff != "" {
			t.Error(diff)
		}
		id := c.wait(job).text("result", "kubernetesCluster", "id")
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":0}`).want(202)
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"Running", "Stopped"}, states()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(10 * time.Second)
		one := c.get("/instances").want(200).text("instances", 0, "id")
		c.get("/instances/"+one).want(200).has(one, "id").has("Running", "state").has("demo-c-1", "name").has(id, "kubernetesClusterId")
		c.get("/instances/none").refused(404, emulator.CodeResourceNotFound)
		if n := len(p.Instances()); n != 1 {
			t.Errorf("%d instances are left", n)
		}
	})
}

// TestVolumes checks that volumes outlive their cluster and have an endpoint for their deletion (Kubernetes endpoints 3).
func TestVolumes(t *testing.T) {
	bubble(t, emulator.Options{VolumesPerCluster: 2}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		volume := p.Volumes()[0].ID
		c.delete("/volumes/"+volume).refused(409, emulator.CodeOperationNotAllowed)
		c.wait(c.delete("/kubernetes-clusters/" + id).want(202).text("jobId"))
		if n := len(p.Volumes()); n != 2 {
			t.Fatalf("%d volumes after the cluster's deletion", n)
		}
		c.delete("/volumes/" + volume).want(200)
		c.delete("/volumes/"+volume).refused(404, emulator.CodeResourceNotFound)
	})
}

// TestListClusters checks that clusters are listed if Shapes.ListClusters asks for it.
func TestListClusters(t *testing.T) {
	bubble(t, emulator.Options{ListClusters: true}, func(_ *testing.T, _ *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		c.get("/kubernetes-clusters?name=demo").want(200).has(id, "kubernetesClusters", 0, "id")
		c.get("/kubernetes-clusters?name=other").want(200).has(nil, "kubernetesClusters", 0)
	})
}

// TestFleetIDs checks that the ids of many clusters are unique.
func TestFleetIDs(t *testing.T) {
	bubble(t, emulator.Options{RateLimit: emulator.RateLimit{Burst: 1000}}, func(t *testing.T, p *emulator.Portal, c *caller) {
		for range 100 {
			c.post("/kubernetes-clusters", c.newCluster(2).String()).want(202)
		}
		time.Sleep(time.Minute)
		ids := []string{}
		for _, i := range p.Instances() {
			ids = append(ids, i.ID)
		}
		for _, cl := range p.Clusters() {
			ids = append(ids, cl.ID, cl.NetworkID)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 100*(3+2) {
			t.Errorf("%d ids of 500 records", n)
		}
	})
}

// TestJobDue checks that a job names the earliest time at which it can end, including the delay of a fault.
func TestJobDue(t *testing.T) {
	faults := []emulator.Fault{{Path: "/kubernetes-clusters", JobDelay: 10 * time.Second}}
	bubble(t, emulator.Options{Faults: faults}, func(t *testing.T, p *emulator.Portal, c *caller) {
		c.create(c.newCluster(1))
		job := p.Jobs()[0]
		if takes := job.Due.Sub(job.Accepted); takes != 19*time.Second {
			t.Errorf("due after %s, want 1 s pending, 8 s for the work and 10 s of the fault", takes)
		}
		if !job.Ended.Equal(job.Due) {
			t.Errorf("ended at %s, due at %s", job.Ended, job.Due)
		}
	})
}

// TestNameBeginsWithADigit checks that a cluster's name may begin with a digit, as the specification does not forbid it.
func TestNameBeginsWithADigit(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		c.create(c.newCluster(1).with("name", "4ever"))
		if got := p.Clusters()[0]; got.Name != "4ever" || got.State != emulator.ClusterRunning || got.Nodes[0].Name != "4ever-c-1" {
			t.Errorf("cluster %+v", got)
		}
	})
}
