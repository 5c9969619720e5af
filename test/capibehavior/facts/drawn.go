// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// History draws changes of a MachineDeployment, of its Machines and of their Nodes, which users and the provider make. It returns a line for
// each change, and one for the state in which core comes to rest after it. Package claims has a model of core, which has to come to the
// same. rest lets core work until it has nothing left to do but to wait for others.
func History(floor Floor, seed uint64, changes int, rest func()) (lines []string) {
	floor.Helper()
	h := &drawn{fixture: newFixture(floor, Fact{Name: "drawn"}), rand: rand.New(rand.NewPCG(seed, 0)), rest: rest, revision: 1}
	surge := h.rand.IntN(2)
	h.deployment = h.machineDeployment("workers", 0)
	change(h.fixture, h.deployment, func(d *clusterv1.MachineDeployment) {
		d.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder // so that no choice among equals is left to chance
		d.Spec.Rollout.Strategy = rollingUpdate(surge, 1-surge)
	})
	rest()
	lines = append(lines, fmt.Sprintf("surge %d", surge))
	for len(lines) < 2*changes {
		acts := []func() string{h.replicas, h.replicas, h.bind, h.bind, h.bind, h.bind, h.takeOver, h.roll, h.deletes, h.annotates, h.drains, h.drains, h.letsGo, h.letsGo, h.releases, h.ails, h.unblocks}
		if did := acts[h.rand.IntN(len(acts))](); did != "" {
			rest()
			lines = append(lines, did, "\t"+h.state())
		}
	}
	return lines
}

// drawn is a history. Machines and Nodes have the numbers m1 and n1 upwards, in the order of their creation.
type drawn struct {
	*fixture
	rand       *rand.Rand
	rest       func()
	deployment *clusterv1.MachineDeployment
	revision   int
	machines   []*clusterv1.Machine // all that there have ever been
	nodes      []*corev1.Node
	pods       []*corev1.Pod // one for each Node
}

// one draws one of the Machines that exist and are as wanted.
func (h *drawn) one(wanted func(*clusterv1.Machine) bool) (*clusterv1.Machine, string) {
	var able []int
	for i, m := range h.machines {
		if h.exists(m)() && wanted(m) {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		return nil, ""
	}
	i := able[h.rand.IntN(len(able))]
	return h.machines[i], fmt.Sprintf("m%d", i+1)
}

func deleting(m *clusterv1.Machine) bool { return m.DeletionTimestamp != nil }

func free(m *clusterv1.Machine) bool { return !deleting(m) && m.Spec.ProviderID == "" }

// of returns the number of the Machine's Node, counted from 0, or -1.
func (h *drawn) of(m *clusterv1.Machine) int {
	return slices.IndexFunc(h.nodes, func(n *corev1.Node) bool { return n.Name == m.Status.NodeRef.Name })
}

func (h *drawn) replicas() string {
	replicas := h.rand.Int32N(5)
	change(h.fixture, h.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &replicas })
	return fmt.Sprintf("replicas %d", replicas)
}

func (h *drawn) roll() string {
	h.revision++
	name := fmt.Sprintf("revision-%d", h.revision)
	h.revise(h.deployment, name)
	return fmt.Sprintf("roll %d", h.revision)
}

// bind gives a Machine a new Node, on which a Pod runs.
func (h *drawn) bind() string {
	m, name := h.one(free)
	if m == nil {
		return ""
	}
	n := len(h.nodes) + 1
	node := h.node(fmt.Sprintf("n%d", n))
	pod := h.run(node, "app")
	h.nodes, h.pods = append(h.nodes, node), append(h.pods, pod)
	act := "bind"
	if h.rand.IntN(4) == 0 {
		h.protect(pod)
		act = "block"
	}
	h.claimNode(m, node)
	return fmt.Sprintf("%s %s n%d", act, name, n)
}

// takeOver gives a Machine the Node of another one, which is to be deleted first.
func (h *drawn) takeOver() string {
	m, name := h.one(free)
	old, other := h.one(func(m *clusterv1.Machine) bool { return !deleting(m) && h.of(m) >= 0 && h.exists(h.nodes[h.of(m)])() })
	if m == nil || old == nil {
		return ""
	}
	n := h.of(old)
	h.annotate(old, clusterv1.DeleteMachineAnnotation)
	h.claimNode(m, h.nodes[n])
	return fmt.Sprintf("take %s n%d %s", name, n+1, other)
}

func (h *drawn) deletes() string {
	m, name := h.one(func(m *clusterv1.Machine) bool { return !deleting(m) })
	if m == nil {
		return ""
	}
	h.delete(m)
	return "delete " + name
}

func (h *drawn) annotates() string {
	m, name := h.one(func(m *clusterv1.Machine) bool { return !deleting(m) })
	if m == nil {
		return ""
	}
	h.annotate(m, clusterv1.DeleteMachineAnnotation)
	return "annotate " + name
}

// drains lets core drain the Node of a Machine, and letsGo lets it delete the Machine.
func (h *drawn) drains() string { return h.unhooks("drain", infrav1.PreDrainHook) }

func (h *drawn) letsGo() string {
	return h.unhooks("go", infrav1.PreDrainHook, infrav1.PreTerminateHook)
}

func (h *drawn) unhooks(act string, hooks ...string) string {
	m, name := h.one(func(m *clusterv1.Machine) bool {
		_, hooked := m.Annotations[hooks[len(hooks)-1]]
		return deleting(m) && hooked
	})
	if m == nil {
		return ""
	}
	h.removeHooks(m, hooks...)
	return act + " " + name
}

// releases takes its Node from a Machine that is being deleted.
func (h *drawn) releases() string {
	m, name := h.one(func(m *clusterv1.Machine) bool { return deleting(m) && h.of(m) >= 0 })
	if m == nil {
		return ""
	}
	h.setProviderID(m, "portal://released/"+m.Name)
	h.rest()
	changeStatus(h.fixture, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	return "release " + name
}

// ails makes a Node fail, or well again.
func (h *drawn) ails() string {
	m, _ := h.one(func(m *clusterv1.Machine) bool { return h.of(m) >= 0 && h.exists(h.nodes[h.of(m)])() })
	if m == nil {
		return ""
	}
	n := h.of(m)
	if conditions := h.nodes[n].Status.Conditions; conditions[len(conditions)-1].Status == corev1.ConditionTrue {
		h.becomes(h.nodes[n], corev1.ConditionFalse, time.Now())
		return fmt.Sprintf("fails n%d", n+1)
	}
	h.becomes(h.nodes[n], corev1.ConditionTrue, time.Now())
	return fmt.Sprintf("recovers n%d", n+1)
}

func (h *drawn) unblocks() string {
	for i, pod := range h.pods {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: pod.ObjectMeta}
		if h.exists(budget)() {
			h.delete(budget)
			return fmt.Sprintf("unblock n%d", i+1)
		}
	}
	return ""
}

// state describes the MachineSets that want Machines, the Machines and the Nodes.
func (h *drawn) state() string {
	sets, machines := &clusterv1.MachineSetList{}, &clusterv1.MachineList{}
	h.Expect(h.Management().List(h.Context(), sets, client.InNamespace(h.namespace))).To(Succeed())
	h.Expect(h.Management().List(h.Context(), machines, client.InNamespace(h.namespace))).To(Succeed())
	revisions, words := map[string]string{}, []string{}
	slices.SortFunc(sets.Items, func(a, b clusterv1.MachineSet) int {
		return strings.Compare(a.Annotations[clusterv1.RevisionAnnotation], b.Annotations[clusterv1.RevisionAnnotation])
	})
	for _, s := range sets.Items {
		revisions[s.Name] = s.Annotations[clusterv1.RevisionAnnotation]
		if *s.Spec.Replicas > 0 {
			words = append(words, fmt.Sprintf("revision %s: %d", revisions[s.Name], *s.Spec.Replicas))
		}
	}
	revision := func(m *clusterv1.Machine) string { return revisions[m.Labels[clusterv1.MachineSetNameLabel]] }
	slices.SortFunc(machines.Items, func(a, b clusterv1.Machine) int {
		return cmp.Or(strings.Compare(revision(&a), revision(&b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, m := range machines.Items {
		if !slices.ContainsFunc(h.machines, func(known *clusterv1.Machine) bool { return known.UID == m.UID }) {
			h.machines = append(h.machines, &m)
		}
	}
	for i, m := range h.machines {
		if !h.exists(m)() {
			continue
		}
		word := fmt.Sprintf("m%d of %s", i+1, revision(m))
		if m.Status.NodeRef.IsDefined() {
			word += fmt.Sprintf(" on n%d", h.of(m)+1)
		}
		if deleting(m) {
			word += " deleting"
		}
		if strings.HasPrefix(h.deletion(m)(), atPreTerminate) {
			word += " drained"
		}
		words = append(words, word)
	}
	for i, n := range h.nodes {
		if !h.exists(n)() {
			continue
		}
		word := fmt.Sprintf("n%d", i+1)
		if n.Spec.Unschedulable {
			word += " cordoned"
		}
		if h.exists(h.pods[i])() {
			word += " busy"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
