// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// poolTale is a life with a MachinePool beside the MachineDeployment.
type poolTale struct {
	*World
	machinePool *clusterv1.MachinePool
	pool        *infrav1.PortalMachinePool
	seen        map[string]string // UIDs of the worker Nodes, by name
}

func startPool(w *World, machines, nodes int32) *poolTale {
	w.Helper()
	w.Apply(newestFirst(machines))
	p := &poolTale{World: w, seen: map[string]string{}}
	p.machinePool, p.pool = newPool("pool", nodes)
	w.Create(p.machinePool)
	w.Create(p.pool)
	p.settle(int(machines), int(nodes))
	return p
}

func newPool(called string, nodes int32) (*clusterv1.MachinePool, *infrav1.PortalMachinePool) {
	pool := &infrav1.PortalMachinePool{ObjectMeta: named(called)}
	pool.Spec.WorkerParameters = NewTemplate("", "small").Spec.Template.Spec
	mp := &clusterv1.MachinePool{ObjectMeta: named(called)}
	mp.Spec.ClusterName, mp.Spec.Replicas = name, &nodes
	mp.Spec.Template.Spec = NewWorkers("", 0).Spec.Template.Spec
	mp.Spec.Template.Spec.InfrastructureRef = infraRef("PortalMachinePool", called)
	return mp, pool
}

func (p *poolTale) scale(nodes int32) {
	p.Helper()
	Edit(p.World, client.ObjectKey{Namespace: namespace, Name: p.machinePool.Name}, p.machinePool, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = &nodes })
}

// settle waits until so many nodes have a Machine and so many belong to the pool, and until both pool objects report this. No Node object of a
// machine that runs was deleted.
func (p *poolTale) settle(machines, nodes int) {
	p.Helper()
	p.SettleOn(machines, machines+nodes)
	p.Until(fmt.Sprintf("the pool has %d nodes", nodes), Patience, func() string {
		read(p.World, p.machinePool)
		read(p.World, p.pool)
		free := 0
		for _, n := range p.Workers() {
			if !p.held(n) {
				free++
			}
		}
		listed := len(p.pool.Spec.ProviderIDList) // nodes that Machines took from the pool stay in the list
		replicas := [2]*int32{p.machinePool.Status.Replicas, p.pool.Status.Replicas}
		if replicas[0] == nil || replicas[1] == nil || int(*replicas[0]) != listed || int(*replicas[1]) != listed || len(p.machinePool.Status.NodeRefs) != listed || free != nodes {
			return fmt.Sprintf("%d free nodes, %d listed, %d nodeRefs", free, listed, len(p.machinePool.Status.NodeRefs))
		}
		return ""
	})
	p.See(p.pool, infrav1.ReadyCondition, "True")
	for _, n := range p.Workers() {
		if uid, seen := p.seen[n.Name]; seen {
			Equal(p.World, "UID of Node "+n.Name, string(n.UID), uid)
		}
		p.seen[n.Name] = string(n.UID)
	}
}

func (p *poolTale) held(n *corev1.Node) bool {
	return slices.ContainsFunc(p.Machines(), func(m *clusterv1.Machine) bool { return m.Status.NodeRef.Name == n.Name })
}

// remove deletes the pool, and waits until it is gone.
func (p *poolTale) remove() {
	p.Helper()
	p.Delete(p.machinePool)
	p.Gone(p.pool, p.machinePool)
}

// TestPool scales a pool beside a MachineDeployment up, down, to zero and back, upgrades the cluster, and deletes the pool. The first scale-down
// waits for Pods that cannot be evicted, of which the condition names one.
func TestPool(t *testing.T) {
	tale(t, func(w *World) {
		p := startPool(w, 1, 3)
		w.Asked("create") // with the sum
		p.scale(4)
		p.settle(1, 4)
		w.RollApp()
		w.Spare(0)
		p.scale(2)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.DrainingReason, "default/web-")
		w.Asked("create", "scale")
		w.Spare(4)
		p.settle(1, 2)
		w.KilledNoPod(2)
		p.scale(0)
		p.settle(1, 0)
		p.scale(2)
		p.settle(1, 2)
		w.SetVersion(newVersion)
		Edit(w, client.ObjectKey{Namespace: namespace, Name: "pool"}, p.machinePool, func(mp *clusterv1.MachinePool) { mp.Spec.Template.Spec.Version = newVersion })
		w.Upgraded(newVersion)
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newVersion })
		p.settle(1, 2)
		for _, n := range w.Workers() {
			Equal(w, "version of Node "+n.Name, n.Status.NodeInfo.KubeletVersion, newVersion)
		}
		before := w.words()
		p.remove()
		w.Settle(1)
		w.Asked(before, "scale")
		w.End()
	})
}

// TestMachineTakesNodeOfPool scales a pool down, for which the portal removes the node of a Machine. The Machine takes a node of the pool, whose
// Node object core does not delete, also not with the pool.
func TestMachineTakesNodeOfPool(t *testing.T) {
	tale(t, func(w *World) {
		p := startPool(w, 0, 2)
		w.Scale(1)
		p.settle(1, 2)
		Equal(w, "a Machine has the newest node", p.held(w.Workers()[2]), true)
		p.scale(1)
		p.settle(1, 1)
		Equal(w, "nodes in the list, with the Machine's", len(p.pool.Spec.ProviderIDList), 2)
		before := w.uids()
		p.remove()
		w.Settle(1)
		Equal(w, "the Node stays", slices.Contains(before, w.uids()[0]), true)
		w.End()
	})
}

// TestSecondPool creates a second pool, which gets no nodes until the first one is deleted. Then the control plane is deleted by hand, and its
// nodes with it. The pool can still be deleted.
func TestSecondPool(t *testing.T) {
	tale(t, func(w *World) {
		p := startPool(w, 1, 1)
		machinePool, pool := newPool("second", 2)
		w.Create(machinePool)
		w.Create(pool)
		w.See(pool, infrav1.ReadyCondition, "False "+infrav1.OwnedByAnotherReason, "MachinePool pool is the pool of the Cluster")
		p.remove()
		p.machinePool, p.pool = machinePool, pool
		p.settle(1, 2)
		for _, size := range w.resizes() {
			if size[1] > 3 {
				t.Errorf("the portal was asked for the nodes of two pools: %v", w.resizes())
			}
		}
		w.Delete(theControl())
		w.Gone(theControl())
		w.Let(time.Minute) // the provider sees it
		p.remove()
		w.End()
	})
}
