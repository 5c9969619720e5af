// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// poolStory is a story with a MachinePool beside the MachineDeployment.
type poolStory struct {
	*story
	machinePool *clusterv1.MachinePool
	pool        *infrav1.PortalMachinePool
	seen        map[string]string // UIDs of the worker Nodes that poolSettled has seen, by name
}

func newPoolStory(t *testing.T, machines, pool int32) *poolStory {
	t.Helper()
	s := &poolStory{story: newStory(t), seen: map[string]string{}}
	s.deployment.Spec.Replicas = &machines
	s.machinePool, s.pool = s.newPool("pool", pool)
	s.apply()
	s.Create(s.machinePool)
	s.Create(s.pool)
	return s
}

// newPool returns a MachinePool and the PortalMachinePool that it names.
func (s *story) newPool(poolName string, replicas int32) (*clusterv1.MachinePool, *infrav1.PortalMachinePool) {
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: poolName}
	return suite.NewPool(meta, name, "v1.35.6", replicas, s.template.Spec.Template.Spec)
}

func (s *poolStory) scalePool(replicas int32) {
	s.Helper()
	suite.Change(s.Fixture, s.machinePool, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = &replicas })
}

// poolSettled waits until machines nodes have a Machine and pool nodes belong to the pool, and until the conditions and the status of both
// pool objects report this. It then checks that the Node objects of running machines were not deleted.
func (s *poolStory) poolSettled(machines, pool int) {
	s.Helper()
	s.Eventually(s.Condition(s.pool, infrav1.ReadyCondition)).Should(HavePrefix("True"))
	s.Eventually(func() (got [6]int) {
		s.Get(s.machinePool)
		s.Get(s.pool)
		held := 0
		for _, n := range s.Nodes() {
			if s.held(n) {
				held++
			}
		}
		listed := len(s.pool.Spec.ProviderIDList) // nodes that Machines took from the pool stay in the list
		return [6]int{
			len(s.Machines()), held, len(s.Nodes()) - held, int(ptr.Deref(s.machinePool.Status.Replicas, -1)) - listed,
			int(ptr.Deref(s.pool.Status.Replicas, -1)) - listed, len(s.machinePool.Status.NodeRefs) - listed,
		}
	}).Should(Equal([6]int{machines, machines, pool, 0, 0, 0}), "Machines, Nodes with a Machine, Nodes without; then replicas of the MachinePool, "+
		"replicas of the PortalMachinePool, and nodeRefs, each minus the length of the list")
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
	s.sameNodes()
	for _, n := range s.Nodes() {
		if uid, seen := s.seen[n.Name]; seen {
			s.Expect(string(n.UID)).To(Equal(uid), "the Node object of %s was deleted while its machine ran", n.Name)
		}
		s.seen[n.Name] = string(n.UID)
	}
}

func (s *story) held(n corev1.Node) bool {
	return slices.ContainsFunc(s.Machines(), func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name == n.Name })
}

// newest returns the newest worker Node, which the portal removes next.
func (s *story) newest() corev1.Node {
	return slices.MaxFunc(s.Nodes(), func(a, b corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// poolGone deletes the MachinePool and waits until it and its PortalMachinePool are gone.
func (s *poolStory) poolGone() {
	s.Helper()
	s.Expect(s.Box.Client.Delete(s.Context(), s.machinePool)).To(Succeed())
	for _, o := range []client.Object{s.pool, s.machinePool} {
		s.Eventually(s.Gone(o)).Should(BeTrue())
	}
}

// TestPool runs a pool beside a MachineDeployment: it creates the pool, scales it up, down, to zero and back, upgrades the cluster, and deletes
// the pool. The first scale-down waits for a Pod that two budgets match, which the eviction API refuses with an internal error, forever. The
// condition names the Pod and the reason, and when the budgets are gone, the scale-down goes on.
func TestPool(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newPoolStory(t, 1, 3)
	s.poolSettled(1, 3)
	s.Expect(s.Changes()).To(Equal([]string{createRequest}), "the first size is the sum")
	s.scalePool(4)
	s.poolSettled(1, 4)

	going := s.newest()
	s.Expect(s.held(going)).To(BeFalse())
	s.protect(going.Name, "precious", "twice")
	s.scalePool(2)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.DrainingReason), ContainSubstring("default/precious"), ContainSubstring("more than one PodDisruptionBudget")))
	s.release("precious", "twice")
	s.poolSettled(1, 2)
	s.Expect(s.removals()[0].ID).To(Equal(going.Name))
	s.noPodWasKilled(2)

	s.scalePool(0)
	s.poolSettled(1, 0)
	s.scalePool(2)
	s.poolSettled(1, 2)

	s.upgrade("v1.36.3")
	suite.Change(s.Fixture, s.machinePool, func(mp *clusterv1.MachinePool) { mp.Spec.Template.Spec.Version = "v1.36.3" })
	s.rollOut("v1.36.3")
	s.poolSettled(1, 2)
	for _, n := range s.Nodes() {
		s.Expect(n.Status.NodeInfo.KubeletVersion).To(Equal("v1.36.3"))
	}

	before := s.Changes()
	s.poolGone()
	s.settled(1)
	s.sameNodes()
	s.Expect(s.Changes()).To(Equal(append(before, scaleRequest)), "the provider asks the portal once to remove the nodes of the pool")
	s.end()
}
