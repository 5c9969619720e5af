// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRandomVictims checks that random victims are neither always the newest nor always the oldest workers.
func TestRandomVictims(t *testing.T) {
	kept := map[int]int{}
	for seed := range int64(40) {
		bubble(t, emulator.Options{VictimOrder: emulator.VictimsRandom, Seed: seed + 1}, func(_ *testing.T, p *emulator.Portal, c *caller) {
			id := c.create(c.newCluster(4))
			before := workers(p)
			c.scale(id, 1)
			kept[slices.Index(before, workers(p)[0])]++
		})
	}
	if len(kept) != 4 {
		t.Errorf("how often each of four workers was kept: %v", kept)
	}
}

// TestUpgradeStyles checks that control nodes are upgraded before workers, one node at a time, and that the API server is never older than
// a kubelet. The style is the portal's or a fault's.
func TestUpgradeStyles(t *testing.T) {
	for style, want := range map[emulator.UpgradeStyle][]string{
		emulator.UpgradeInPlace: {
			"34: c-1@34, w-1@34, w-2@34",
			"35: c-1@35, w-1@34, w-2@34",
			"35: c-1@35, w-1@35, w-2@34",
			"35: c-1@35, w-1@35, w-2@35",
		},
		emulator.UpgradeRecreate: {
			"34: c-1@34, w-1@34, w-2@34",
			"35: w-1@34, w-2@34, c-1@35",
			"35: w-2@34, c-1@35, w-1@35",
			"35: c-1@35, w-1@35, w-2@35",
		},
		emulator.UpgradeReplace: {
			"34: c-1@34, w-1@34, w-2@34",
			"35: w-1@34, w-2@34, c-2@35",
			"35: w-2@34, c-2@35, w-3@35",
			"35: c-2@35, w-3@35, w-1@35",
		},
		emulator.UpgradeSurge: {
			"34: c-1@34, w-1@34, w-2@34",
			"35: c-1@34, w-1@34, w-2@34, c-2@35",
			"35: w-1@34, w-2@34, c-2@35",
			"35: w-1@34, w-2@34, c-2@35, w-3@35",
			"35: w-2@34, c-2@35, w-3@35",
			"35: w-2@34, c-2@35, w-3@35, w-1@35",
			"35: c-2@35, w-3@35, w-1@35",
		},
	} {
		for _, byFault := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by a fault %t", style, byFault), func(t *testing.T) {
				l := &ledger{}
				opts := emulator.Options{UpgradeStyle: style, Workloads: l, ReuseNodeNames: true}
				if byFault {
					opts.UpgradeStyle, opts.Faults = "", []emulator.Fault{{Path: upgradeTemplate, UpgradeStyle: style}}
				}
				bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
					id := c.create(c.newCluster(2))
					before := machines(p)
					c.upgrade(id, "v1.35.6").has("succeeded", "status")
					if diff := cmp.Diff(want, l.steps()); diff != "" {
						t.Errorf("steps (-want +got):\n%s", diff)
					}
					if same := cmp.Equal(before, machines(p)); same != (style == emulator.UpgradeInPlace) {
						t.Errorf("machines before %v, after %v", before, machines(p))
					}
					if got := p.Clusters()[0]; got.Version != "v1.35.6" || got.Size != 2 {
						t.Errorf("cluster %+v", got)
					}
				})
			})
		}
	}
}

// machines returns the instance ids of the first cluster's nodes.
func machines(p *emulator.Portal) []string {
	ids := []string{}
	for _, n := range p.Clusters()[0].Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// TestNodesLeftBehind checks that the Node object of a removed machine stays until a node of that name is created or the cluster is
// deleted.
func TestNodesLeftBehind(t *testing.T) {
	l := &ledger{}
	bubble(t, emulator.Options{Workloads: l, ReuseNodeNames: true}, func(t *testing.T, p *emulator.Portal, c *caller) {
		inject(t, p, emulator.Fault{Path: "/kubernetes-clusters/{cluster_id}/scale", LeaveNodes: true, Count: 1})
		id := c.create(c.newCluster(2))
		c.scale(id, 1)
		c.scale(id, 1)
		c.scale(id, 2)
		want := []string{
			"34: c-1@34, w-1@34, w-2@34",
			"34: c-1@34, w-1@34, w-2 gone",
			"34: c-1@34, w-1@34, w-2 gone",
			"34: c-1@34, w-1@34, w-2@34",
		}
		if diff := cmp.Diff(want, l.steps()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if n := len(p.Instances()); n != 3 {
			t.Errorf("%d instances", n)
		}
	})
}

// TestRemovalsAreLogged checks that the request log has what Kubernetes observed of each removal: by a scale-down, by an
// upgrade that replaces nodes, and of a machine whose Node object stays. It has no entry for a removal that was not observed.
func TestRemovalsAreLogged(t *testing.T) {
	seen := func(n emulator.Node) emulator.Removal {
		r := emulator.Removal{Machine: n.ID, Cordoned: !n.ControlPlane, Ready: !n.ControlPlane, Pods: []string{"default/on-" + n.Name}}
		if n.ControlPlane {
			r.Pods, r.Terminating = nil, []string{"default/ends"}
		}
		return r
	}
	for name, test := range map[string]struct {
		removalOf func(emulator.Node) emulator.Removal
		fault     emulator.Fault
		do        func(c *caller, id string)
		want      []string
	}{
		"scale": {seen, emulator.Fault{}, func(c *caller, id string) { c.scale(id, 1) },
			[]string{"demo-w-2 cluster-1: cordoned, ran default/on-demo-w-2 by scale cluster"}},
		"Node object stays": {seen, emulator.Fault{LeaveNodes: true}, func(c *caller, id string) { c.scale(id, 1) },
			[]string{"demo-w-2 cluster-1, its Node object stays: cordoned, ran default/on-demo-w-2 by scale cluster"}},
		"upgrade": {seen, emulator.Fault{}, func(c *caller, id string) { c.upgrade(id, "v1.35.6") }, []string{
			"demo-c-1 cluster-1: schedulable, not Ready, was deleting default/ends by upgrade cluster",
			"demo-w-1 cluster-1: cordoned, ran default/on-demo-w-1 by upgrade cluster",
			"demo-w-2 cluster-1: cordoned, ran default/on-demo-w-2 by upgrade cluster",
		}},
		"nobody saw it": {nil, emulator.Fault{}, func(c *caller, id string) { c.scale(id, 1) }, []string{"demo-w-2 cluster-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := emulator.Options{Workloads: &ledger{removalOf: test.removalOf}, ReuseNodeNames: true, UpgradeStyle: emulator.UpgradeReplace}
			bubble(t, options, func(t *testing.T, p *emulator.Portal, c *caller) {
				id := c.create(c.newCluster(2))
				if test.fault.LeaveNodes {
					inject(t, p, test.fault)
				}
				test.do(c, id)
				got := []string{}
				for _, e := range p.RequestLog() {
					if e.To != "removed" {
						continue
					}
					text := e.ID + " " + strings.ReplaceAll(e.Detail, id, "cluster-1")
					if e.Removal != nil {
						text += " by " + string(e.Removal.By)
					}
					got = append(got, text)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("removed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNodes checks that a node name is used again only if the option says so, and then for another machine, and that provider ids name the
// zone and the instance, or are empty.
func TestNodes(t *testing.T) {
	for _, on := range []bool{false, true} {
		bubble(t, emulator.Options{ReuseNodeNames: on, ProviderIDs: on}, func(t *testing.T, p *emulator.Portal, c *caller) {
			id := c.create(c.newCluster(2).with("name", strings.Repeat("4", 63)))
			before := p.Clusters()[0].Nodes
			c.scale(id, 1)
			c.scale(id, 2)
			after := p.Clusters()[0].Nodes
			if same := before[2].Name == after[2].Name; same != on || before[2].ID == after[2].ID {
				t.Errorf("reuse %t: node %v was replaced by %v", on, before[2], after[2])
			}
			for _, n := range after {
				if want := map[bool]string{true: "portal:///zone-1/" + n.ID}[on]; n.ProviderID != want || len(n.Name) > 63 {
					t.Errorf("node %s has provider id %q, want %q", n.Name, n.ProviderID, want)
				}
			}
		})
	}
}

// TestSetVictimOrder checks that the order can change between two scale-downs, and that the request log has the change.
func TestSetVictimOrder(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(4))
		before := workers(p)
		c.scale(id, 3)
		must(t, p.SetVictimOrder(emulator.VictimsOldest))
		log := p.RequestLog()
		c.scale(id, 2)
		if diff := cmp.Diff(before[1:3], workers(p)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", before, diff)
		}
		if last := log[len(log)-1]; last.Object != "portal" || last.From != "newest" || last.To != "oldest" {
			t.Errorf("the request log has %+v", last)
		}
	})
}
