// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
)

// life describes a Machine and its PortalMachine.
type life struct {
	node      string // node that the PortalMachine claims
	released  bool
	deleted   bool
	draining  bool
	drained   bool
	unjoined  bool // core has not found the Node yet
	unclaimed bool // the PortalMachine does not exist yet
}

// TestPictured checks that each phase of a Machine's life has its own state, and that a takeover names both Machines.
func TestPictured(t *testing.T) {
	for _, test := range []struct {
		name  string
		lives []life // Machines a, b, …, oldest first
		want  []page.Machine
	}{
		{"waits for its claim", []life{{unclaimed: true}}, []page.Machine{{State: page.MachineWaiting}}},
		{"waits for a node", []life{{}}, []page.Machine{{State: page.MachineWaiting}}},
		{"core has not found the Node", []life{{node: "n", unjoined: true}}, []page.Machine{{Node: "n", State: page.MachineJoining}}},
		{"runs", []life{{node: "n"}}, []page.Machine{{Node: "n", State: page.MachineRunning}}},
		{"held", []life{{node: "n", deleted: true}}, []page.Machine{{Node: "n", State: page.MachineHeld}}},
		{"being drained", []life{{node: "n", deleted: true, draining: true}}, []page.Machine{{Node: "n", State: page.MachineDraining}}},
		{"drained", []life{{node: "n", deleted: true, draining: true, drained: true}}, []page.Machine{{Node: "n", State: page.MachineDrained}}},
		{"released", []life{{node: "n", deleted: true, released: true}}, []page.Machine{{State: page.MachineReleased}}},
		{"takeover", []life{{node: "n"}, {node: "n"}}, []page.Machine{
			{Node: "n", State: page.MachineRunning}, {Node: "n", State: page.MachineTakeover, From: "a"},
		}},
		{"takeover while the old Machine is deleted", []life{{node: "n", deleted: true}, {node: "n"}}, []page.Machine{
			{Node: "n", State: page.MachineHeld}, {Node: "n", State: page.MachineTakeover, From: "a"},
		}},
		{"after the takeover", []life{{node: "n", deleted: true, released: true}, {node: "n"}}, []page.Machine{
			{State: page.MachineReleased}, {Node: "n", State: page.MachineRunning},
		}},
		{"two nodes", []life{{node: "n"}, {node: "m"}}, []page.Machine{
			{Node: "n", State: page.MachineRunning}, {Node: "m", State: page.MachineRunning},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var machines []clusterv1.Machine
			var portalMachines []infrav1.PortalMachine
			for i, l := range test.lives {
				name := string(rune('a' + i))
				test.want[i].Name, test.want[i].Cluster, test.want[i].ClusterID = name, "demo", "cluster-1"
				machines = append(machines, l.machine(name, i))
				if !l.unclaimed {
					portalMachines = append(portalMachines, l.claim(name))
				}
			}
			got := pictured(machines, portalMachines, map[client.ObjectKey]string{keyOf("default", "demo"): "cluster-1"})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func (l life) machine(name string, age int) clusterv1.Machine {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, age, 0, 0, time.UTC))
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: now}}
	m.Spec.ClusterName = "demo"
	if l.node != "" && !l.unjoined {
		m.Status.NodeRef.Name = l.node
	}
	if l.deleted {
		m.DeletionTimestamp, m.Status.Deletion = &now, &clusterv1.MachineDeletionStatus{}
	}
	if l.draining {
		m.Status.Deletion.NodeDrainStartTime = now
	}
	if l.drained {
		m.Status.Deletion.WaitForPreTerminateHookStartTime = now
	}
	return m
}

func (l life) claim(name string) infrav1.PortalMachine {
	c := infrav1.PortalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if l.node != "" {
		c.Spec.Node, c.Spec.ProviderID = &infrav1.BoundNode{Name: l.node, UID: "uid-" + l.node}, "portal://"+l.node
	}
	if l.released {
		c.Spec.ProviderID = claims.ReleasedProviderID("cluster-1", name)
	}
	return c
}
