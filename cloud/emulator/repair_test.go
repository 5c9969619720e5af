// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// budgets is a ledger with nodes whose Pods a PodDisruptionBudget protects.
type budgets struct {
	ledger
	mu       sync.Mutex
	blocked  string // a node, or ""
	cordoned []string
}

func (b *budgets) Drain(ctx context.Context, _, node string, atMost time.Duration) error {
	b.mu.Lock()
	b.cordoned = append(b.cordoned, node)
	blocked := b.blocked == node
	b.mu.Unlock()
	if !blocked {
		return nil
	}
	select {
	case <-time.After(atMost):
		return errors.New("it still runs default/web")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *budgets) Cordon(_ context.Context, _, node string, unschedulable bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cordoned = slices.DeleteFunc(b.cordoned, func(n string) bool { return n == node })
	if unschedulable {
		b.cordoned = append(b.cordoned, node)
	}
	return nil
}

func (b *budgets) block(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = node
}

const (
	scaleTemplate   = "/kubernetes-clusters/{cluster_id}/scale"
	upgradeTemplate = "/kubernetes-clusters/{cluster_id}/upgrade"
	clusterTemplate = "/kubernetes-clusters/{cluster_id}"
)

// TestBlockedDrain scales down by three at a portal that drains the victims. The Pods of the second victim are protected: the first one is
// gone, the job fails after the time of the drain, and the record keeps the size until the portal's operator repairs the cluster.
func TestBlockedDrain(t *testing.T) {
	w := &budgets{}
	bubble(t, emulator.Options{Workloads: w}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(5))
		before := workers(p)
		inject(t, p, emulator.Fault{Path: scaleTemplate, Drain: time.Minute, Alert: true})
		w.block(before[3])
		began := time.Now()
		c.scale(id, 2).has("failed", "status").
			has(fmt.Sprintf("node %s could not be drained in 1m0s: it still runs default/web", before[3]), "error", "message")
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("the job took %s", took)
		}
		if diff := cmp.Diff(before[:4], workers(p)); diff != "" {
			t.Errorf("workers (-want +got):\n%s", diff)
		}
		if got := p.Clusters()[0]; got.State != emulator.ClusterAlert || got.Size != 5 {
			t.Errorf("the record is %s with size %d", got.State, got.Size)
		}
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":4}`).refused(409, emulator.CodeOperationNotAllowed)
		c.post("/kubernetes-clusters/"+id+"/upgrade", c.versionBody("v1.36.3")).refused(409, emulator.CodeOperationNotAllowed)
		c.get("/kubernetes-clusters/" + id + "/config").want(200)

		w.block("")
		must(t, p.Repair(id))
		if got := p.Clusters()[0]; got.State != emulator.ClusterRunning || got.Size != 4 {
			t.Errorf("the repaired record is %s with size %d", got.State, got.Size)
		}
		c.scale(id, 2).has("succeeded", "status")
		if diff := cmp.Diff(before[:2], workers(p)); diff != "" {
			t.Errorf("workers after the repair (-want +got):\n%s", diff)
		}
		if p.Repair(id) == nil || p.Repair("none") == nil {
			t.Error("a cluster that needs no repair was repaired")
		}
	})
}

// TestFailedUpgradeLeavesTheNodeCordoned checks both ways in which an upgrade fails half way, and needs a repair. The nodes before have the new
// version, and the rest has the old one. The next upgrade makes the node schedulable.
func TestFailedUpgradeLeavesTheNodeCordoned(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"a drain is blocked": {Path: upgradeTemplate, Drain: time.Minute, Alert: true, Count: 1},
		"by a fault":         {Path: upgradeTemplate, Job: emulator.JobFailsHalfway, JobNodes: 2, LeaveCordoned: true, Alert: true, Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := &budgets{}
			bubble(t, emulator.Options{Workloads: w}, func(t *testing.T, p *emulator.Portal, c *caller) {
				id := c.create(c.newCluster(3))
				second := workers(p)[1]
				w.block(second)
				inject(t, p, fault, emulator.Fault{Path: upgradeTemplate, Drain: time.Minute, Nth: 2})
				c.upgrade(id, "v1.36.3").has("failed", "status")
				got := []string{}
				for _, n := range p.Clusters()[0].Nodes {
					got = append(got, minor(n.Version))
				}
				if want := []string{"36", "36", "34", "34"}; !slices.Equal(got, want) {
					t.Errorf("versions %v, want %v", got, want)
				}
				if got := p.Clusters()[0]; !slices.Equal(w.cordoned, []string{second}) || got.Version != "v1.34.9" || got.State != emulator.ClusterAlert {
					t.Errorf("cordoned: %v in version %s, %s", w.cordoned, got.Version, got.State)
				}
				w.block("")
				must(t, p.Repair(id))
				c.upgrade(id, "v1.36.3").has("succeeded", "status")
				if len(w.cordoned) > 0 {
					t.Errorf("cordoned after the next upgrade: %v", w.cordoned)
				}
			})
		})
	}
}

// TestBlockedUpgradeChangesNothing checks that the API server keeps its version if the first control node cannot be drained.
func TestBlockedUpgradeChangesNothing(t *testing.T) {
	w := &budgets{blocked: "demo-c-1"}
	bubble(t, emulator.Options{Workloads: w}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		inject(t, p, emulator.Fault{Path: upgradeTemplate, Drain: time.Minute})
		c.upgrade(id, "v1.36.3").has("failed", "status")
		c.scale(id, 2).has("succeeded", "status")
		for _, step := range w.steps() {
			if strings.Contains(step, "36") {
				t.Errorf("a component has the new version: %s", step)
			}
		}
	})
}

// TestRepairEndsAStuckJob checks that a job which would never end fails when the portal's operator repairs the cluster.
func TestRepairEndsAStuckJob(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(2))
		inject(t, p, emulator.Fault{Path: scaleTemplate, Job: emulator.JobStuck, Alert: true, Count: 1})
		job := c.post("/kubernetes-clusters/"+id+"/scale", `{"size":3}`).want(202).text("jobId")
		time.Sleep(24 * time.Hour)
		c = login(t, p)
		c.get("/jobs/"+job).has("running", "status")
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":3}`).refused(409, emulator.CodeResourceBusy)
		must(t, p.Repair(id))
		if p.Repair(id) == nil {
			t.Error("the job was ended twice")
		}
		synctest.Wait()
		c.get("/jobs/"+job).has("failed", "status")
		if got := p.Clusters()[0]; got.State != emulator.ClusterRunning || got.Size != 2 {
			t.Errorf("the record is %s with size %d", got.State, got.Size)
		}
		c.scale(id, 3).has("succeeded", "status")
	})
}

// TestDeletionInAlert checks that a cluster in Alert can be deleted, unless a fault selects calls by the cluster's state, and that a deletion that
// fails leaves it in Alert.
func TestDeletionInAlert(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id, other := c.create(c.newCluster(2)), c.create(c.newCluster(2))
		inject(t, p, emulator.Fault{Path: scaleTemplate, Job: emulator.JobFails, Alert: true},
			emulator.Fault{Method: "DELETE", Path: clusterTemplate, State: emulator.ClusterAlert, Code: emulator.CodeOperationNotAllowed})
		c.scale(id, 3).has("failed", "status")
		c.delete("/kubernetes-clusters/"+id).refused(409, emulator.CodeOperationNotAllowed)
		c.wait(c.delete("/kubernetes-clusters/"+other).want(202).text("jobId")).has("succeeded", "status")
		p.ClearFaults()
		inject(t, p, emulator.Fault{Method: "DELETE", Path: clusterTemplate, Job: emulator.JobFails, Count: 1})
		c.wait(c.delete("/kubernetes-clusters/"+id).want(202).text("jobId")).has("failed", "status")
		if got := p.Clusters()[0]; got.State != emulator.ClusterAlert || got.Size != 2 {
			t.Errorf("after a failed deletion: %s with size %d", got.State, got.Size)
		}
		c.wait(c.delete("/kubernetes-clusters/"+id).want(202).text("jobId")).has("succeeded", "status")
	})
}
