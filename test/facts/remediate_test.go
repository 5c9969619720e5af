// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Fact 6: a MachineHealthCheck has a Machine deleted at once whose Node is missing, or has been unhealthy for long:
// the time counts from the Node's condition, not from when the Machine came to it. The annotation skip-remediation
// holds that, if it is there before the MachineHealthCheck has marked the Machine (OwnerRemediated): a marked Machine
// is deleted whatever its annotations say.
//
// It is the MachineSet that deletes: not while a preflight check fails (fact 5), and not if it belongs to an older
// revision of a MachineDeployment. A Machine without a MachineSet is marked and left.
//
// Rests on machinehealthcheck/machinehealthcheck_targets.go (needsRemediation, nodeChecks, shouldSkipRemediation),
// machinehealthcheck/machinehealthcheck_controller.go (patchUnhealthyTargets; it looks every 15 seconds at most) and
// machineset/machineset_controller.go (reconcileUnhealthyMachines).
func remediation(t *testing.T) {
	t.Parallel()
	t.Run("missing_or_long_unhealthy_is_deleted_unless_skipped", func(t *testing.T) {
		begin(t, "remediate", stable(version)).remediates()
	})
	t.Run("skip-remediation_comes_too_late_for_a_marked_Machine", func(t *testing.T) {
		begin(t, "remediate-marked", stable(version)).skipsTooLate()
	})
	t.Run("an_older_revision_is_left_to_the_rollout", func(t *testing.T) {
		begin(t, "remediate-older", stable(version)).leavesOlderRevision()
	})
	t.Run("a_Machine_without_a_MachineSet_is_marked_and_left", func(t *testing.T) {
		w := begin(t, "remediate-alone", stable(version))
		m, node := w.bound("alone")
		w.notReady(node, time.Now().Add(-time.Hour))
		w.healthCheck()
		w.Eventually(w.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
			Should(HavePrefix("False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason))
		w.Expect(m.DeletionTimestamp).To(BeNil())
	})
}

// healthCheck creates a MachineHealthCheck of all Machines that gives an unhealthy Node five minutes.
func (w *world) healthCheck() *clusterv1.MachineHealthCheck {
	w.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: w.meta("check"), Spec: clusterv1.MachineHealthCheckSpec{
		ClusterName: clusterName,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To[int32](300),
		}}},
	}}
	w.create(check)
	return check
}

func (w *world) remediates() {
	set := w.machineSet("set", version, 4, clusterv1.RandomMachineSetDeletionOrder)
	machines := w.machinesWith("set", set.Name, 4)
	missing, long, brief, skipped := machines[0], machines[1], machines[2], machines[3]
	nodes := w.bindAll(machines)
	w.notReady(nodes[long.Name], time.Now().Add(-time.Hour))
	w.notReady(nodes[skipped.Name], time.Now().Add(-time.Hour))
	w.notReady(nodes[brief.Name], time.Now())
	w.Expect(workload.Delete(w.Context(), nodes[missing.Name])).To(Succeed())
	w.annotate(skipped, clusterv1.MachineSkipRemediationAnnotation)
	check := w.healthCheck()

	w.Eventually(w.machines.deleting("set", set.Name)).Should(ConsistOf(missing.Name, long.Name))
	w.Eventually(func() []string { w.read(check); return check.Status.Targets }).Should(ContainElement(brief.Name))
	w.Expect(check.Status.Targets).NotTo(ContainElement(skipped.Name))
	w.Expect(conditions.Has(skipped, clusterv1.MachineHealthCheckSucceededCondition)).To(BeFalse())

	change(w, skipped, func(m *clusterv1.Machine) { delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation) })
	w.Eventually(w.machines.deleting("set", set.Name)).Should(ConsistOf(missing.Name, long.Name, skipped.Name))
}

// skipsTooLate has an upgrade of the control plane hold the deletion for a while.
func (w *world) skipsTooLate() {
	set := w.machineSet("set", version, 1, clusterv1.RandomMachineSetDeletionOrder)
	m := w.machinesWith("set", set.Name, 1)[0]
	node := w.node("a")
	w.notReady(node, time.Now().Add(-time.Hour))
	w.bind(m, node)
	change(w, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newer })
	w.healthCheck()
	w.Eventually(w.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
		Should(HavePrefix("False " + clusterv1.MachineSetMachineRemediationDeferredReason))
	w.annotate(m, clusterv1.MachineSkipRemediationAnnotation)
	w.Expect(m.DeletionTimestamp).To(BeNil())
	changeStatus(w, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(newer) })
	w.Eventually(w.machines.deleting("set", set.Name)).Should(ConsistOf(m.Name))
}

func (w *world) leavesOlderRevision() {
	deployment := w.machineDeployment("workers", 1)
	m := w.machinesWith("deployment", deployment.Name, 1)[0]
	node := w.node("a")
	w.notReady(node, time.Now().Add(-time.Hour))
	w.bind(m, node)
	w.template("next")
	change(w, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = "next" })
	w.machinesWith("deployment", deployment.Name, 2)
	w.Eventually(func() string { w.read(deployment); return deployment.Annotations[clusterv1.RevisionAnnotation] }).Should(Equal("2"))
	w.healthCheck()
	w.Eventually(w.condition(m, clusterv1.MachineOwnerRemediatedCondition)).
		Should(HavePrefix("False " + clusterv1.MachineSetMachineCannotBeRemediatedReason))
	w.Expect(m.DeletionTimestamp).To(BeNil())
}
