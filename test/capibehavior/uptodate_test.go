// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Prefixes of a Machine's UpToDate condition.
const (
	isUpToDate = "True " + clusterv1.MachineUpToDateReason
	isUpdating = "False " + clusterv1.MachineUpToDateUpdatingReason
	isOutdated = "False " + clusterv1.MachineNotUpToDateReason
)

// Fact 4: UpToDate is False for two reasons. NotUpToDate: the Machine's MachineSet has another template than the
// MachineDeployment. Updating: the template is the same, but the text of the kubelet's version differs from the Machine's
// version, or an in-place update runs. After an upgrade by the portal this is true of every Machine. It stays true forever if
// kubelets report build metadata that the spec does not have. NotUpToDate has priority. A Machine that has never had a Node is
// up to date. A Machine without a MachineDeployment does not have this condition.
//
// Rests on machine/machine_controller_status.go (setUpToDateCondition) and machinedeployment/mdutil/util.go
// (MachineTemplateUpToDate).
func upToDate(t *testing.T) {
	w := begin(t, "up-to-date", stable(version))
	deployment := w.machineDeployment("workers", 1)
	m := w.machinesWith("deployment", deployment.Name, 1)[0]
	w.Eventually(w.condition(m, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isUpToDate), "without a Node")
	node := w.node("a")
	w.bind(m, node)
	w.Expect(w.condition(m, clusterv1.MachineUpToDateCondition)()).To(HavePrefix(isUpToDate))

	for _, kubelet := range []string{version + "+build.1", newer} {
		w.report(node, func(s *corev1.NodeStatus) { s.NodeInfo.KubeletVersion = kubelet })
		w.Eventually(w.condition(m, clusterv1.MachineUpToDateCondition)).
			Should(And(HavePrefix(isUpdating), ContainSubstring(kubelet)), "the portal has upgraded the kubelet")
	}

	change(w, management, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newer })
	changeStatus(w, management, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(newer) })
	change(w, management, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = newer })
	w.Eventually(w.condition(m, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isOutdated))
	both := w.machinesWith("deployment", deployment.Name, 2)
	next := both[slices.IndexFunc(both, func(o *clusterv1.Machine) bool { return o.Name != m.Name })]
	w.Eventually(w.condition(next, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isUpToDate))
	w.bind(next, node)
	w.Expect(w.condition(next, clusterv1.MachineUpToDateCondition)()).To(HavePrefix(isUpToDate), "the kubelet has the version of the Machine")

	alone, _ := w.bound("alone")
	w.Expect(conditions.Has(alone, clusterv1.MachineUpToDateCondition)).To(BeFalse())
}
