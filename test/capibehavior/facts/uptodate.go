// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"

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
var upToDate = []Fact{{Name: "4-up-to-date", check: (*fixture).tellsWhyOutdated}}

func (f *fixture) tellsWhyOutdated() {
	deployment := f.machineDeployment("workers", 1)
	m := f.machinesWith("deployment", deployment.Name, 1)[0]
	f.Eventually(f.condition(m, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isUpToDate), "without a Node")
	node := f.node("a")
	f.bind(m, node)
	f.Expect(f.condition(m, clusterv1.MachineUpToDateCondition)()).To(HavePrefix(isUpToDate))

	for _, kubelet := range []string{version + "+build.1", newer} {
		f.report(node, func(s *corev1.NodeStatus) { s.NodeInfo.KubeletVersion = kubelet })
		f.Eventually(f.condition(m, clusterv1.MachineUpToDateCondition)).
			Should(And(HavePrefix(isUpdating), ContainSubstring(kubelet)), "the portal has upgraded the kubelet")
	}

	change(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newer })
	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(newer) })
	change(f, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = newer })
	f.Eventually(f.condition(m, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isOutdated))
	both := f.machinesWith("deployment", deployment.Name, 2)
	next := both[slices.IndexFunc(both, func(o *clusterv1.Machine) bool { return o.Name != m.Name })]
	f.Eventually(f.condition(next, clusterv1.MachineUpToDateCondition)).Should(HavePrefix(isUpToDate))
	f.bind(next, node)
	f.Expect(f.condition(next, clusterv1.MachineUpToDateCondition)()).To(HavePrefix(isUpToDate), "the kubelet has the version of the Machine")

	alone, _ := f.bound("alone")
	f.Expect(conditions.Has(alone, clusterv1.MachineUpToDateCondition)).To(BeFalse())
}
