// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestClusterLife checks the request log of a cluster's whole life: the requests and their results.
func TestClusterLife(t *testing.T) {
	bubble(t, emulator.Options{Seed: 1, ReuseNodeNames: true}, func(t *testing.T, p *emulator.Portal, c *caller) {
		network := c.post("/networks", `{"cidr":"10.1.0.0/24"}`).want(201).text("network", "id")
		id := c.create(c.newCluster(2).with("networkId", network))
		c.scale(id, 1).has("succeeded", "status")
		c.upgrade(id, "v1.35.6").has("succeeded", "status")
		if kubeconfig := c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig"); !strings.Contains(kubeconfig, id) {
			t.Errorf("the kubeconfig does not name %s", id)
		}
		c.wait(c.delete("/kubernetes-clusters/"+id).want(202).text("jobId")).has("succeeded", "status")
		c.get("/kubernetes-clusters/"+id+"/config").refused(404, emulator.CodeResourceNotFound)

		if diff := cmp.Diff(clusterLife, story(p)); diff != "" {
			t.Errorf("the request log differs (-want +got):\n%s", diff)
		}
	})
}

const clusterLife = `
00:00   portal: ready seed=1
00:00 POST /login → 200
00:00 POST /networks → 201
00:00   network net-1: created 10.1.0.0/24
00:00 GET /vpcs → 200
00:00 POST /kubernetes-clusters → 202
00:00   cluster cluster-1: Creating name=demo size=2 controlNodes=1 version=v1.34.9
00:00   job job-1: pending create cluster cluster-1
00:01   job job-1: pending → running create cluster cluster-1
00:09   node demo-c-1: added cluster-1
00:09   node demo-w-1: added cluster-1
00:09   node demo-w-2: added cluster-1
00:09   cluster cluster-1: Creating → Running size=2 version=v1.34.9
00:09   job job-1: running → succeeded create cluster cluster-1
00:10 POST /kubernetes-clusters/cluster-1/scale → 202
00:10   cluster cluster-1: Running → Scaling size 2 → 1
00:10   job job-2: pending scale cluster cluster-1
00:11   job job-2: pending → running scale cluster cluster-1
00:16   node demo-w-2: removed cluster-1
00:16   cluster cluster-1: Scaling → Running size=1 version=v1.34.9
00:16   job job-2: running → succeeded scale cluster cluster-1
00:20 POST /kubernetes-clusters/cluster-1/upgrade → 202
00:20   cluster cluster-1: Running → Upgrading v1.34.9 → v1.35.6
00:20   job job-3: pending upgrade cluster cluster-1
00:21   job job-3: pending → running upgrade cluster cluster-1
00:26   node demo-c-1: v1.34.9 → v1.35.6 cluster-1
00:31   node demo-w-1: v1.34.9 → v1.35.6 cluster-1
00:31   cluster cluster-1: Upgrading → Running size=1 version=v1.35.6
00:31   job job-3: running → succeeded upgrade cluster cluster-1
00:35 GET /kubernetes-clusters/cluster-1/config → 200
00:35 DELETE /kubernetes-clusters/cluster-1 → 202
00:35   cluster cluster-1: Running → Deleting
00:35   job job-4: pending delete cluster cluster-1
00:36   job job-4: pending → running delete cluster cluster-1
00:41   node demo-c-1: removed cluster-1
00:41   node demo-w-1: removed cluster-1
00:41   cluster cluster-1: Deleting → deleted
00:41   job job-4: running → succeeded delete cluster cluster-1
00:45 GET /kubernetes-clusters/cluster-1/config → 404 RESOURCE_NOT_FOUND
`

// story returns the request log but for polls, with short times, and with ids numbered in the order of their first appearance.
func story(p *emulator.Portal) string {
	var b strings.Builder
	for _, e := range p.RequestLog() {
		if !strings.HasPrefix(e.Path, "/jobs/") {
			fmt.Fprintf(&b, "%s %s\n", e.Time.Format("04:05"), e)
		}
	}
	seen, count := map[string]string{}, map[string]int{}
	return "\n" + regexp.MustCompile(`\b([a-z]+)-[0-9a-f]{12}\b`).ReplaceAllStringFunc(b.String(), func(id string) string {
		if seen[id] == "" {
			kind, _, _ := strings.Cut(id, "-")
			count[kind]++
			seen[id] = fmt.Sprintf("%s-%d", kind, count[kind])
		}
		return seen[id]
	})
}

// TestCloseEndsEverything checks that Close returns at once although a job is running, and leaves no goroutine (the bubble would not end).
func TestCloseEndsEverything(t *testing.T) {
	l := &ledger{}
	bubble(t, emulator.Options{Workloads: l}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		job := c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")
		time.Sleep(2 * time.Second)
		start := time.Now()
		p.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %s", took)
		}
		c.get("/jobs/"+job).refused(503, emulator.CodeUnavailable)
		if got := p.Jobs()[1].Status; got != emulator.JobRunning {
			t.Errorf("the job is %s, want it to stay as it was", got)
		}
		if got := l.deletions(); len(got) != 2 || got[0] != id && got[1] != id {
			t.Errorf("workload clusters deleted: %v", got)
		}
		p.Close() // a second Close must do no harm
	})
}

// TestSameSeedSameStory checks that all ids, names and choices depend only on the seed.
func TestSameSeedSameStory(t *testing.T) {
	run := func(seed int64) (entries string) {
		options := emulator.Options{
			Seed: seed, VictimOrder: emulator.VictimsRandom, Faults: []emulator.Fault{{Status: 503, Path: "/instances", Probability: 0.3}},
		}
		bubble(t, options, func(t *testing.T, p *emulator.Portal, c *caller) {
			c.scale(c.create(c.newCluster(6)), 3)
			for range 40 {
				c.get("/instances")
			}
			if struck := p.Faults()[0].Hits; struck < 4 || struck > 20 {
				t.Errorf("%d of 40 calls were struck, want about 12", struck)
			}
			for _, e := range p.RequestLog() {
				entries += e.String() + "\n"
			}
		})
		return entries
	}
	first := run(7)
	if diff := cmp.Diff(first, run(7)); diff != "" {
		t.Errorf("the same seed gives another request log (-first +second):\n%s", diff)
	}
	if first == run(8) {
		t.Error("another seed gives the same request log")
	}
}
