// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Fact 6: A MachineHealthCheck remediates a Machine at once if its Node is missing or has been unhealthy for the timeout. The
// timeout counts from the transition of the Node's condition, not from the time at which the Machine got the Node. The
// annotation skip-remediation prevents the remediation if it is set before the MachineHealthCheck marks the Machine
// (OwnerRemediated). On a marked Machine the annotation does harm: the MachineHealthCheck no longer checks the Machine, so the
// mark stays, and core deletes the Machine even if its Node has become Ready.
//
// The MachineSet deletes the marked Machine. It does not while a preflight check fails (fact 5), and not if the MachineSet
// belongs to an older revision of a MachineDeployment. A marked Machine without a MachineSet stays.
//
// Rests on machinehealthcheck/machinehealthcheck_targets.go (needsRemediation, nodeChecks, shouldSkipRemediation),
// machinehealthcheck/machinehealthcheck_controller.go (patchUnhealthyTargets, which runs every 15 seconds at most) and
// machineset/machineset_controller.go (reconcileUnhealthyMachines).
var remediation = []Fact{
	{Name: "6-missing-or-long-unhealthy-is-deleted", check: (*fixture).remediates},
	{Name: "6-skip-remediation-comes-too-late", check: (*fixture).skipsTooLate},
	{Name: "6-older-revision-is-left-to-the-rollout", check: (*fixture).leavesOlderRevision},
	{Name: "6-without-a-machineset-marked-and-left", check: func(f *fixture) {
		m, node := f.bound("alone")
		f.becomes(node, corev1.ConditionFalse, time.Now().Add(-time.Hour))
		f.healthCheck()
		f.Eventually(f.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
			Should(HavePrefix("False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason))
		f.Expect(m.DeletionTimestamp).To(BeNil())
	}},
}

// healthCheck creates a MachineHealthCheck for all Machines, with a timeout of 30 minutes.
func (f *fixture) healthCheck() *clusterv1.MachineHealthCheck {
	f.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: f.meta("check"), Spec: clusterv1.MachineHealthCheckSpec{
		ClusterName: clusterName,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To[int32](1800),
		}}},
	}}
	f.create(check)
	return check
}

func (f *fixture) remediates() {
	set := f.machineSet("set", version, 4, clusterv1.RandomMachineSetDeletionOrder)
	machines := f.machinesWith("set", set.Name, 4)
	missing, long, brief, skipped := machines[0], machines[1], machines[2], machines[3]
	nodes := f.bindAll(machines)
	f.becomes(nodes[long.Name], corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.becomes(nodes[skipped.Name], corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.becomes(nodes[brief.Name], corev1.ConditionFalse, time.Now())
	f.delete(nodes[missing.Name])
	f.annotate(skipped, clusterv1.MachineSkipRemediationAnnotation)
	check := f.healthCheck()

	f.Eventually(f.machines.deleting("set", set.Name)).Should(ConsistOf(missing.Name, long.Name))
	f.Eventually(func() []string { f.get(check); return check.Status.Targets }).Should(ContainElement(brief.Name))
	f.Expect(check.Status.Targets).NotTo(ContainElement(skipped.Name))
	f.Expect(conditions.Has(skipped, clusterv1.MachineHealthCheckSucceededCondition)).To(BeFalse())

	change(f, skipped, func(m *clusterv1.Machine) { delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation) })
	f.Eventually(f.machines.deleting("set", set.Name)).Should(ConsistOf(missing.Name, long.Name, skipped.Name))
}

// skipsTooLate delays the deletion of two marked Machines by an upgrade of the control plane. Their Nodes become Ready in the
// meantime. The MachineHealthCheck removes the mark of one Machine. The other has the annotation, so its mark stays.
func (f *fixture) skipsTooLate() {
	set := f.machineSet("set", version, 2, clusterv1.RandomMachineSetDeletionOrder)
	machines := f.machinesWith("set", set.Name, 2)
	recovers, skipped := machines[0], machines[1]
	nodes := f.bindAll(machines)
	change(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newer })
	f.readControlPlane()
	for _, m := range machines {
		f.becomes(nodes[m.Name], corev1.ConditionFalse, time.Now().Add(-time.Hour))
	}
	f.healthCheck()
	for _, m := range machines {
		f.Eventually(f.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
			Should(HavePrefix("False " + clusterv1.MachineSetMachineRemediationDeferredReason))
	}

	f.annotate(skipped, clusterv1.MachineSkipRemediationAnnotation)
	for _, m := range machines {
		f.becomes(nodes[m.Name], corev1.ConditionTrue, time.Now())
		f.Eventually(f.condition(m, clusterv1.MachineNodeHealthyCondition)).Should(HavePrefix("True"))
	}
	f.Eventually(f.condition(recovers, clusterv1.MachineOwnerRemediatedCondition)).Should(Equal("none"))
	f.Expect(f.machines.deleting("set", set.Name)()).To(BeEmpty())

	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(newer) })
	f.Eventually(f.machines.deleting("set", set.Name)).Should(ConsistOf(skipped.Name))
}

func (f *fixture) leavesOlderRevision() {
	deployment := f.machineDeployment("workers", 1)
	m := f.machinesWith("deployment", deployment.Name, 1)[0]
	node := f.node("a")
	f.becomes(node, corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.bind(m, node)
	f.template("next")
	change(f, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = "next" })
	f.machinesWith("deployment", deployment.Name, 2)
	f.Eventually(func() string { f.get(deployment); return deployment.Annotations[clusterv1.RevisionAnnotation] }).Should(Equal("2"))
	f.healthCheck()
	f.Eventually(f.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
		Should(HavePrefix("False " + clusterv1.MachineSetMachineCannotBeRemediatedReason))
	f.Expect(m.DeletionTimestamp).To(BeNil())
}
