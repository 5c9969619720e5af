// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Fact 1: A MachineSet with too many Machines deletes them in this order: Machines that are already being deleted, Machines with
// the annotation delete-machine, Machines with an in-place update, unhealthy Machines, and then all others in the MachineSet's
// deletion order. Machines that are being deleted count as replicas: the MachineSet replaces them only after they are gone.
//
// Rests on machineset/machineset_deletion_order.go (randomDeletionOrder, newestDeletionOrder, oldestDeletionOrder,
// isMachineHealthy, sortableMachines) and on machineset/machineset_controller.go (getAndAdoptMachinesForMachineSet,
// which includes Machines that are being deleted, syncReplicas, deleteMachines).
//
// This fact does not cover Machines created in the same second. With the order Random, all healthy Machines have the same
// priority, and core sorts them by name. With Newest and Oldest, core computes the priority from the current time at each
// comparison. So two Machines never have the same priority, and their order is a matter of chance.
var whichMachineGoes = []Fact{
	{Name: "1-order-newest", check: func(f *fixture) { f.picks(clusterv1.NewestMachineSetDeletionOrder) }},
	{Name: "1-order-oldest", check: func(f *fixture) { f.picks(clusterv1.OldestMachineSetDeletionOrder) }},
	{Name: "1-order-random", check: func(f *fixture) { f.picks(clusterv1.RandomMachineSetDeletionOrder) }},
	{Name: "1-deleting-machines-count", check: (*fixture).countsDeleting},
}

func (f *fixture) picks(order clusterv1.MachineSetDeletionOrder) {
	set := f.machineSet(strings.ToLower(string(order)), version, 0, order)
	machines := f.grow(set, 6)
	switch order {
	case clusterv1.OldestMachineSetDeletionOrder:
		slices.Reverse(machines) // so that the deletion order alone would select the opposite
	case clusterv1.RandomMachineSetDeletionOrder:
		slices.SortFunc(machines[4:], func(a, b *clusterv1.Machine) int { return strings.Compare(b.Name, a.Name) })
	}
	deleting, annotated, updating, unhealthy, first := machines[0], machines[1], machines[2], machines[3], machines[5]
	f.becomes(f.bindAll(machines)[unhealthy.Name], corev1.ConditionFalse, time.Now())
	f.Eventually(f.condition(unhealthy, clusterv1.MachineNodeHealthyCondition)).Should(HavePrefix("False"))
	f.annotate(updating, clusterv1.UpdateInProgressAnnotation)
	f.annotate(annotated, clusterv1.DeleteMachineAnnotation)
	f.delete(deleting)
	f.Eventually(f.deletion(deleting)).Should(HavePrefix("True"))

	expected := []string{}
	for i, m := range []*clusterv1.Machine{deleting, annotated, updating, unhealthy, first} {
		expected = append(expected, m.Name)
		f.scale(set, int32(len(machines)-1-i))
		f.Eventually(f.machines.deleting("set", set.Name)).Should(HaveLen(len(expected)))
		f.Expect(f.machines.deleting("set", set.Name)()).To(Equal(expected), "scaled down by %d", i+1)
	}
}

// grow scales a MachineSet up one by one, so that the ages of its Machines differ. It returns the Machines, the oldest first.
func (f *fixture) grow(set *clusterv1.MachineSet, count int) []*clusterv1.Machine {
	f.Helper()
	var machines []*clusterv1.Machine
	for i := range count {
		f.scale(set, int32(i+1))
		machines = f.machinesWith("set", set.Name, i+1)
		created := machines[i].CreationTimestamp.Time // whole seconds
		f.Eventually(func() time.Duration { return time.Since(created) }).Should(BeNumerically(">", time.Second))
	}
	return machines
}

// scale changes the replicas and waits until the MachineSet controller has observed the change.
func (f *fixture) scale(set *clusterv1.MachineSet, replicas int32) {
	f.Helper()
	change(f, set, func(s *clusterv1.MachineSet) { s.Spec.Replicas = &replicas })
	f.observed(set, clusterv1.MachineSetScalingDownCondition)
}

func (f *fixture) annotate(m *clusterv1.Machine, annotation string) {
	f.Helper()
	change(f, m, func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, annotation, "") })
}

func (f *fixture) countsDeleting() {
	set := f.machineSet("count", version, 2, clusterv1.NewestMachineSetDeletionOrder)
	machines := f.machinesWith("set", set.Name, 2)
	f.bindAll(machines)
	f.Eventually(f.readyOf(set)).Should(Equal([2]int32{2, 2}))
	f.delete(machines[0])
	f.Eventually(f.readyOf(set)).Should(Equal([2]int32{2, 1}), "replicas and ready replicas while a Machine is being deleted")
	f.release(machines[0])
	f.machinesWith("set", set.Name, 2)
	f.Eventually(func() int { return len(f.machines.lives("set", set.Name)) }).Should(Equal(4))
	f.Expect(f.machines.lives("set", set.Name)).To(Equal([]string{"ADDED", "ADDED", "DELETED", "ADDED"}))
}

// readyOf returns a function that reads the replicas and the ready replicas in a MachineSet's status.
func (f *fixture) readyOf(set *clusterv1.MachineSet) func() [2]int32 {
	return func() [2]int32 {
		f.get(set)
		return [2]int32{ptr.Deref(set.Status.Replicas, 0), ptr.Deref(set.Status.ReadyReplicas, 0)}
	}
}
