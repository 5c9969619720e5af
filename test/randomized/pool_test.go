// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var withPool = flag.Bool("pool", false, "give every Cluster a MachinePool beside its MachineDeployments")

// ofPool is the key of the pool's replicas in the sums.
const ofPool = "the pool"

// poolActs are additional acts for Clusters with pools.
var poolActs = []act{
	{"scale pool", 6, false, (*life).scalePool},
	{"drop pool", 2, false, (*life).dropPool},
	{"new pool", 4, false, (*life).newPool},
}

// addPool creates a MachinePool with its PortalMachinePool.
func (l *life) addPool(ctx context.Context, replicas int32) error {
	l.pools++
	meta := metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprintf("p%d", l.pools)}
	l.setPool(meta.Name)
	l.logf("new MachinePool %s: %d replicas", meta.Name, replicas)
	pool, infra := suite.NewPool(meta, name, versions[l.version], replicas, infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"})
	if err := l.client.Create(ctx, infra); err != nil {
		return err
	}
	return l.sums.change(ofPool, int(replicas), func() error { return l.client.Create(ctx, pool) })
}

func (l *life) setPool(name string) {
	l.seen.Lock()
	defer l.seen.Unlock()
	l.pool, l.poolList = name, nil
}

// drawPoolReplicas draws zero more often than other numbers.
func (l *life) drawPoolReplicas() int32 { return max(0, int32(l.roll.IntN(5))-1) }

func (l *life) scalePool(ctx context.Context) (string, error) {
	replicas := l.drawPoolReplicas()
	if l.pool == "" {
		return "", nil
	}
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.pool}}
	return fmt.Sprintf("pool %s to %d", l.pool, replicas), l.sums.change(ofPool, int(replicas), func() error {
		return change(ctx, l.client, pool, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = &replicas })
	})
}

func (l *life) dropPool(ctx context.Context) (string, error) {
	if l.pool == "" {
		return "", nil
	}
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.pool}}
	l.setPool("")
	return "drop pool " + pool.Name, l.sums.change(ofPool, -1, func() error { return l.client.Delete(ctx, pool) })
}

// newPool creates a pool if the last one is gone. As long as the last one exists, the replicas of another would not count.
func (l *life) newPool(ctx context.Context) (string, error) {
	replicas := l.drawPoolReplicas()
	if l.pool != "" || l.noPool(ctx) != nil {
		return "", nil //nolint:nilerr // the last one still exists
	}
	err := l.addPool(ctx, replicas)
	return fmt.Sprintf("new pool %s with %d", l.pool, replicas), err
}

// noPool returns an error if a MachinePool exists.
func (l *life) noPool(ctx context.Context) error {
	pools := &clusterv1.MachinePoolList{}
	if err := l.client.List(ctx, pools, client.InNamespace(l.namespace)); err != nil {
		return err
	}
	if len(pools.Items) > 0 {
		return fmt.Errorf("MachinePool %s still exists", pools.Items[0].Name)
	}
	return nil
}

// poolSettled checks that the pool has as many running nodes without a Machine as it has replicas, and that every listed Node
// exists. It also checks that the MachinePool has the listed Nodes and that the PortalMachinePool is Ready. A dropped pool must
// be gone.
func (l *life) poolSettled(ctx context.Context, nodes map[string]bool) error {
	if l.pool == "" {
		return l.noPool(ctx)
	}
	infra, pool := &infrav1.PortalMachinePool{}, &clusterv1.MachinePool{}
	key := client.ObjectKey{Namespace: l.namespace, Name: l.pool}
	machines, list := &clusterv1.MachineList{}, &corev1.NodeList{}
	err := errors.Join(l.client.Get(ctx, key, infra), l.client.Get(ctx, key, pool), l.client.List(ctx, machines, client.InNamespace(l.namespace)), l.workload.List(ctx, list))
	if err != nil {
		return err
	}
	listed, members := 0, 0
	for _, n := range list.Items {
		if !slices.Contains(infra.Spec.ProviderIDList, n.Spec.ProviderID) {
			continue
		}
		listed++
		if nodes[n.Name] && !slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name == n.Name }) {
			members++
		}
	}
	switch {
	case members != l.sums.of(ofPool):
		return fmt.Errorf("the pool has %d nodes, and %d are wanted", members, l.sums.of(ofPool))
	case listed != len(infra.Spec.ProviderIDList):
		return fmt.Errorf("the pool lists %v, and %d of these Nodes exist", infra.Spec.ProviderIDList, listed)
	case len(pool.Status.NodeRefs) != listed:
		return fmt.Errorf("the MachinePool has %d nodeRefs, and its list has %d nodes", len(pool.Status.NodeRefs), listed)
	case metav1.HasAnnotation(pool.ObjectMeta, clusterv1.PausedAnnotation), conditions.IsTrue(pool, clusterv1.PausedCondition):
		return fmt.Errorf("MachinePool %s is paused", pool.Name)
	case !conditions.IsTrue(infra, infrav1.ReadyCondition):
		return fmt.Errorf("PortalMachinePool %s is not Ready: %+v", infra.Name, conditions.Get(infra, infrav1.ReadyCondition))
	}
	return nil
}

// watchPool checks that a providerID leaves the list of a pool only when no Node has it: core would delete that Node. A pool
// that is being dropped is not checked.
func (l *life) watchPool(ctx context.Context) error {
	from := source{client: l.client, list: &infrav1.PortalMachinePoolList{}, options: []client.ListOption{client.InNamespace(l.namespace)}}
	return from.follow(ctx, func(o client.Object, gone bool) {
		infra, ok := o.(*infrav1.PortalMachinePool)
		if !ok || gone {
			return
		}
		nodes := &corev1.NodeList{}
		if err := l.workload.List(ctx, nodes); err != nil {
			l.logf("cannot compare Nodes with the list of pool %s: %v", infra.Name, err)
		}
		l.seen.Lock()
		defer l.seen.Unlock()
		if infra.Name == l.pool {
			l.poolChanged(infra.Spec.ProviderIDList, nodes.Items)
		}
	})
}

// poolChanged compares the list with the previous one. Callers hold seen.
func (l *life) poolChanged(list []string, nodes []corev1.Node) {
	for _, id := range l.poolList {
		i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Spec.ProviderID == id })
		if i >= 0 && !slices.Contains(list, id) {
			l.wrong("%s left the list of the pool, and Node %s exists", id, nodes[i].Name)
		}
	}
	if !slices.Equal(list, l.poolList) {
		l.logf("  the pool lists %v", list)
	}
	l.poolList = list
}

// leavePool removes the nodes that the pool lists from idle. Callers hold seen.
func (l *life) leavePool(idle map[string]string) {
	for _, n := range l.nodes {
		if slices.Contains(l.poolList, n.Spec.ProviderID) {
			delete(idle, string(n.UID))
		}
	}
}
