// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func trait(traits emulator.Traits) emulator.Options { return emulator.Options{Traits: traits} }

// drains returns how often each node of the portal was drained, or was not drained in time.
func drains(p *emulator.Portal) map[string]int {
	all := map[string]int{}
	for _, e := range p.RequestLog() {
		if e.Object == "node" && strings.HasSuffix(e.To, "drained") {
			all[e.ID]++
		}
	}
	return all
}

// TestUpgradeBeginsAgain upgrades a cluster. The Pods of the second worker are protected, so the job fails. A portal with the trait drains the
// nodes before that worker once more with the next request. It drains nodes that a scale-down removes as well, and tells its clusters that
// Pods without a controller stay.
func TestUpgradeBeginsAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w := &budgets{}
		opts := emulator.Options{Workloads: w, Traits: emulator.Traits{UpgradesRestart: restarts, DrainTime: time.Minute, BarePodsStay: true}}
		bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
			id := c.create(c.newCluster(3))
			names := workers(p)
			w.block(names[1])
			c.upgrade(id, "v1.36.3").has("failed", "status")
			w.block("")
			c.upgrade(id, "v1.36.3").has("succeeded", "status")
			w.block(names[2])
			c.scale(id, 2).has("failed", "status")
			again := map[bool]int{false: 1, true: 2}[restarts]
			want := map[string]int{"demo-c-1": again, names[0]: again, names[1]: 2, names[2]: 2}
			if diff := cmp.Diff(want, drains(p)); diff != "" || !w.applied[0].BarePodsStay {
				t.Errorf("restarts %t (-want +got):\n%s", restarts, diff)
			}
		})
	}
}

// TestUpgradeLimit upgrades a cluster whose nodes take longer than the portal allows a whole upgrade. Each request does a part.
func TestUpgradeLimit(t *testing.T) {
	opts := trait(emulator.Traits{NodeUpgrade: 4 * time.Minute, UpgradeLimit: 10 * time.Minute})
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(3))
		path := "/kubernetes-clusters/" + id + "/upgrade"
		job := c.post(path, c.versionBody("v1.36.3")).want(202).text("jobId")
		time.Sleep(13 * time.Minute)
		c.get("/jobs/"+job).has("failed", "status").has("the upgrade timed out after 10m0s, with 3 of 4 nodes", "error", "message")
		if got := p.Clusters()[0]; got.Version != "v1.34.9" || got.State != emulator.ClusterRunning {
			t.Errorf("the record is %s with version %s", got.State, got.Version)
		}
		c.upgrade(id, "v1.36.3").has("succeeded", "status")
	})
}

// TestRefusalsByJob checks which refusals come with the job, and that such a job leaves the cluster alone.
func TestRefusalsByJob(t *testing.T) {
	opts := trait(emulator.Traits{RefusalsByJob: true, UpgradesByStep: true})
	opts.Zones, opts.MinWorkers = []string{"zone-1"}, 1
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(2))
		path := "/kubernetes-clusters/" + id
		for _, test := range []struct{ path, body, code string }{
			{path + "/scale", `{"size":51}`, emulator.CodeQuotaExceeded},
			{path + "/scale", `{"size":0}`, emulator.CodeInvalidParameter},
			{path + "/upgrade", c.versionBody("v1.34.9"), emulator.CodeInvalidParameter},
			{path + "/upgrade", c.versionBody("v1.36.3"), emulator.CodeInvalidParameter},
			{path + "/upgrade", `{"kubernetesVersionId":"none"}`, emulator.CodeInvalidParameter},
			{"/kubernetes-clusters", c.newCluster(1).with("zoneId", "elsewhere").String(), emulator.CodeInvalidParameter},
		} {
			c.wait(c.post(test.path, test.body).want(202).text("jobId")).has("failed", "status").has(test.code, "error", "code").text("error", "message")
		}
		if got := p.Clusters(); len(got) != 1 || got[0].State != emulator.ClusterRunning || got[0].Size != 2 {
			t.Errorf("clusters: %+v", got)
		}
		c.post(path+"/scale", `{"size":"3"}`).refused(400, emulator.CodeInvalidParameter)
		c.post("/kubernetes-clusters/none/scale", `{"size":3}`).refused(404, emulator.CodeResourceNotFound)
		c.delete("/kubernetes-clusters/none").refused(404, emulator.CodeResourceNotFound)
		c.delete("/volumes/none").refused(404, emulator.CodeResourceNotFound)
		c.post("/networks", `{"cidr":"x"}`).refused(400, emulator.CodeInvalidParameter)
		c.post(path+"/scale", `{"size":3}`).want(202)
		c.delete(path).refused(409, emulator.CodeResourceBusy)
	})
}

// TestRedundantFails checks that a request which would change nothing costs the cluster its state.
func TestRedundantFails(t *testing.T) {
	bubble(t, trait(emulator.Traits{RedundantFails: true}), func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(2))
		for _, ask := range []func() *reply{
			func() *reply { return c.scale(id, 2) }, func() *reply { return c.upgrade(id, "v1.34.9") },
		} {
			ask().has("failed", "status").has(emulator.CodeOperationNotAllowed, "error", "code")
			if state := p.Clusters()[0].State; state != emulator.ClusterAlert {
				t.Errorf("the cluster is %s", state)
			}
			must(t, p.Repair(id))
		}
		c.scale(id, 3).has("succeeded", "status")
		c.upgrade(id, "v1.36.3").has("succeeded", "status")
	})
}

// TestUpgradesByStep checks the refusals, and that an upgrade which failed half way may be repeated.
func TestUpgradesByStep(t *testing.T) {
	bubble(t, trait(emulator.Traits{UpgradesByStep: true}), func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(2))
		path := "/kubernetes-clusters/" + id + "/upgrade"
		c.post(path, c.versionBody("v1.34.9")).refused(422, emulator.CodeInvalidParameter)
		c.post(path, c.versionBody("v1.36.3")).refused(422, emulator.CodeInvalidParameter)
		inject(t, p, emulator.Fault{Path: upgradeTemplate, Job: emulator.JobFailsHalfway, Count: 1})
		c.upgrade(id, "v1.35.6").has("failed", "status")
		c.upgrade(id, "v1.35.6").has("succeeded", "status")
		c.upgrade(id, "v1.36.3").has("succeeded", "status")
		c.post(path, c.versionBody("v1.35.6")).refused(422, emulator.CodeInvalidParameter).has("kubernetesVersionId", "error", "field")
	})
}

// TestScan stops a machine, and starts it again. The portal notices both by itself. A failed job leads to Alert as well, which the next scan
// ends, unless machines are missing.
func TestScan(t *testing.T) {
	bubble(t, trait(emulator.Traits{ScanInterval: 30 * time.Second}), func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(3))
		scaled := func(size int) *reply {
			return c.post("/kubernetes-clusters/"+id+"/scale", fmt.Sprintf(`{"size":%d}`, size))
		}
		is := func(want emulator.ClusterState, when string) {
			t.Helper()
			if got := p.Clusters()[0].State; got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		machine := p.Instances()[2].ID
		if p.StopMachine(t.Context(), "none") == nil {
			t.Error("a machine that does not exist was stopped")
		}
		if err := p.StopMachine(t.Context(), machine); err != nil || p.Instances()[2].State != emulator.InstanceStopped {
			t.Fatalf("%v, %v", err, p.Instances()[2])
		}
		c.get("/instances/"+machine).want(200).has("Stopped", "state").has(id, "kubernetesClusterId")
		c.get("/instances/none").refused(404, emulator.CodeResourceNotFound)
		is(emulator.ClusterRunning, "at once")
		time.Sleep(31 * time.Second)
		is(emulator.ClusterAlert, "after a scan")
		scaled(4).refused(409, emulator.CodeOperationNotAllowed)
		must(t, p.StartMachine(t.Context(), machine))
		time.Sleep(31 * time.Second)
		is(emulator.ClusterRunning, "when the machine runs again")

		inject(t, p, emulator.Fault{Path: scaleTemplate, Job: emulator.JobFails, Count: 1})
		c.wait(scaled(4).want(202).text("jobId")).has("failed", "status")
		time.Sleep(31 * time.Second)
		is(emulator.ClusterRunning, "after a failed job that changed nothing")

		inject(t, p, emulator.Fault{Path: scaleTemplate, Job: emulator.JobFailsHalfway, Count: 1})
		c.wait(scaled(1).want(202).text("jobId")).has("failed", "status")
		time.Sleep(time.Hour)
		is(emulator.ClusterAlert, "with fewer machines than the record says")
	})
}

// TestKubeconfigOnce checks that the portal returns the first kubeconfig after its credentials have expired, until they are replaced.
func TestKubeconfigOnce(t *testing.T) {
	for _, once := range []bool{true, false} {
		opts := emulator.Options{KubeconfigLifetime: time.Hour, Traits: emulator.Traits{KubeconfigOnce: once}}
		bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
			id := c.create(c.newCluster(1))
			fetch := func() string { return c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig") }
			first := fetch()
			if same := fetch() == first; same != once || strings.Count(first, ".") < 4 {
				t.Errorf("once %t: two requests get the same token: %t, or one that is not a JWT", once, same)
			}
			time.Sleep(2 * time.Hour)
			if same := fetch() == first; same != once {
				t.Errorf("once %t: the kubeconfig is the same: %t", once, same)
			}
			if err := p.Rotate(t.Context(), id, emulator.Rotation{Credentials: true}); err != nil || fetch() == first {
				t.Errorf("the credentials were not replaced: %v", err)
			}
		})
	}
}

// TestNarrowerRules checks what portals with these traits refuse to create, and a cluster that they accept.
func TestNarrowerRules(t *testing.T) {
	traits := emulator.Traits{LimitsAllNodes: true, TripleZones: []string{"east"}, ShortNames: true, NetworksForOne: true, SmallOfferings: []string{"tiny"}}
	opts := emulator.Options{MaxWorkers: 10, Zones: []string{"east", "west"}, Traits: traits}
	bubble(t, opts, func(t *testing.T, _ *emulator.Portal, c *caller) {
		network := c.post("/networks", `{"cidr":"10.0.0.0/24"}`).want(201).text("network", "id")
		valid := func() clusterRequest {
			return c.newCluster(7).with("zoneId", "east").with("controlNodes", 3).with("networkId", network)
		}
		for name, request := range map[string]clusterRequest{
			"more nodes than workers": valid().with("size", 8),
			"three in another zone":   valid().with("zoneId", "west"),
			"two":                     valid().with("controlNodes", 2),
			"a small offering":        valid().with("serviceOfferingId", "tiny"),
			"a long name":             valid().with("name", "a"+strings.Repeat("b", 40)),
			"a digit first":           valid().with("name", "1a"),
		} {
			if r := c.post("/kubernetes-clusters", request.String()); r.status/100 != 4 {
				t.Errorf("%s: status %d", name, r.status)
			}
		}
		id := c.create(valid().with("name", "a"+strings.Repeat("b", 39)))
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":8}`).refused(422, emulator.CodeQuotaExceeded)
		c.post("/kubernetes-clusters", valid().with("controlNodes", 1).with("size", 1).String()).refused(422, emulator.CodeInvalidParameter).
			has("networkId", "error", "field")
		c.wait(c.delete("/kubernetes-clusters/" + id).want(202).text("jobId"))
		c.create(valid())
	})
}

// TestUniqueNames creates a cluster under a name that another one has, then under the name of a deleted one.
func TestUniqueNames(t *testing.T) {
	bubble(t, trait(emulator.Traits{UniqueNames: true, NamesReserved: 10 * time.Minute}), func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		asked := time.Now()
		c.post("/kubernetes-clusters", c.newCluster(1).String()).refused(500, emulator.CodeInternalError)
		if took := time.Since(asked); took != 45*time.Second || len(p.Clusters()) != 1 {
			t.Errorf("the refusal took %s, there are %d clusters", took, len(p.Clusters()))
		}
		c.wait(c.delete("/kubernetes-clusters/" + id).want(202).text("jobId"))
		c.post("/kubernetes-clusters", c.newCluster(1).String()).refused(409, emulator.CodeOperationNotAllowed)
		time.Sleep(10 * time.Minute)
		c.create(c.newCluster(1))
	})
}

// TestDeletionIsCollected deletes a cluster. The job fails, and the portal finishes the deletion minutes later.
func TestDeletionIsCollected(t *testing.T) {
	bubble(t, trait(emulator.Traits{DeletionsCollected: 5 * time.Minute}), func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		path := "/kubernetes-clusters/" + id
		inject(t, p, emulator.Fault{Method: "DELETE", Path: clusterTemplate, Job: emulator.JobFails, Count: 2})
		for range 2 { // it may be asked again
			c.wait(c.delete(path).want(202).text("jobId")).has("failed", "status")
			if state := p.Clusters()[0].State; state != emulator.ClusterDeleting {
				t.Errorf("after the failed job: %s", state)
			}
		}
		c.post(path+"/scale", `{"size":2}`).refused(409, emulator.CodeOperationNotAllowed)
		c.get(path+"/config").refused(409, emulator.CodeOperationNotAllowed)
		time.Sleep(5 * time.Minute)
		c.get(path+"/config").refused(404, emulator.CodeResourceNotFound)
		deleted := slices.DeleteFunc(p.RequestLog(), func(e emulator.LogEntry) bool { return e.To != "deleted" })
		if len(deleted) != 1 || len(p.Clusters()) != 0 {
			t.Errorf("deletions: %v", deleted)
		}
	})
}

// TestDeletionWithoutAnEnd deletes a cluster whose job goes on although the cluster is gone.
func TestDeletionWithoutAnEnd(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		inject(t, p, emulator.Fault{ID: "endless", Method: "DELETE", Path: clusterTemplate, Job: emulator.JobStuckLate})
		job := c.delete("/kubernetes-clusters/" + id).want(202).text("jobId")
		time.Sleep(time.Hour)
		c.get("/jobs/"+job).has("running", "status")
		c.get("/kubernetes-clusters/"+id+"/config").refused(404, emulator.CodeResourceNotFound)
		p.RemoveFault("endless")
		c.wait(job).has("succeeded", "status")
	})
}

// TestDeletedClusters checks how a cluster answers while it is deleted and afterwards, and what stays of it for how long.
func TestDeletedClusters(t *testing.T) {
	for answers, want := range map[emulator.DeletedClusters]struct{ during, after int }{
		"": {409, 404}, emulator.DeletedHidden: {404, 404}, emulator.DeletedReadable: {200, 200},
	} {
		opts := trait(emulator.Traits{DeletedClusters: answers, RemainsFor: 12 * time.Hour, NetworksForOne: true})
		opts.VolumesPerCluster, opts.TokenLifetime = 1, 24*time.Hour
		bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
			network := c.post("/networks", `{"cidr":"10.0.0.0/24"}`).want(201).text("network", "id")
			id := c.create(c.newCluster(1).with("networkId", network))
			read := func() int { return c.get("/kubernetes-clusters/" + id + "/config").status }
			job := c.delete("/kubernetes-clusters/" + id).want(202).text("jobId")
			if got := read(); got != want.during {
				t.Errorf("%q: %d during the deletion", answers, got)
			}
			c.wait(job).has("succeeded", "status")
			if got := read(); got != want.after {
				t.Errorf("%q: %d after the deletion", answers, got)
			}
			c.post("/kubernetes-clusters/"+id+"/scale", `{"size":2}`).refused(404, emulator.CodeResourceNotFound)
			volume := "/volumes/" + p.Volumes()[0].ID
			c.delete(volume).refused(409, emulator.CodeOperationNotAllowed)
			c.post("/kubernetes-clusters", c.newCluster(1).with("networkId", network).String()).refused(422, emulator.CodeInvalidParameter)
			if left := len(p.Instances()); left != 2 {
				t.Errorf("%d machines after the deletion", left)
			}
			time.Sleep(12 * time.Hour)
			c.get("/kubernetes-clusters/"+id+"/config").refused(404, emulator.CodeResourceNotFound)
			if left := len(p.Instances()); left != 0 {
				t.Errorf("%d machines at the end", left)
			}
			c.delete(volume).want(200)
			c.create(c.newCluster(1).with("networkId", network))
		})
	}
}

// TestAnswersTakeFromTo checks that each answer takes another time, and that the work does not wait for it.
func TestAnswersTakeFromTo(t *testing.T) {
	bubble(t, emulator.Options{Seed: 1}, func(t *testing.T, p *emulator.Portal, c *caller) {
		inject(t, p, emulator.Fault{Method: "POST", Path: "/networks", After: true, Delay: 20 * time.Second, DelayUpTo: 2 * time.Minute})
		var took []time.Duration
		for range 20 {
			asked := time.Now()
			c.post("/networks", `{"cidr":"10.0.0.0/24"}`).want(201)
			took = append(took, time.Since(asked))
		}
		if least, most := slices.Min(took), slices.Max(took); least < 20*time.Second || most > 2*time.Minute || most-least < time.Minute {
			t.Errorf("answers took %s", took)
		}
	})
}
