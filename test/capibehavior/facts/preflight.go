// SPDX-License-Identifier: Apache-2.0

package facts

import (
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Fact 5: A MachineSet creates no Machine whose minor version is newer than that of the control plane's spec.version, or more
// than three minor versions older. It creates no Machine of any version while the control plane's status has no version
// yet, or an older one than its spec. It creates Machines of a newer patch version. It checks again every 15 seconds.
//
// Rests on machineset/machineset_preflight.go (runPreflightChecks, kubernetesVersionPreflightCheck,
// controlPlaneStablePreflightCheck), machineset/machineset_controller.go (createMachines), internal/contract/
// controlplane.go at the top (IsProvisioning, IsUpgrading) and core/main.go (--machineset-preflight-checks).
var preflight = []Fact{{
	Name:   "5-preflight",
	status: func(s *infrav1.PortalControlPlaneStatus) { s.Version, s.Versions = "", nil },
	check:  (*fixture).checksVersions,
}}

func (f *fixture) checksVersions() {
	const unstable, skewed = "ControlPlaneIsStable", "KubernetesVersionSkew"
	set := func(name, version string) *clusterv1.MachineSet {
		return f.machineSet(name, version, 1, clusterv1.RandomMachineSetDeletionOrder)
	}
	blocked := func(set *clusterv1.MachineSet, check string) {
		f.Helper()
		f.Eventually(f.condition(set, clusterv1.MachineSetScalingUpCondition)).
			Should(And(HavePrefix("True"), ContainSubstring(`"%s" preflight check failed`, check)))
		f.Expect(f.machines.lives("set", set.Name)).To(BeEmpty())
	}

	same := set("same", version)
	blocked(same, unstable) // provisioning

	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(version) })
	f.machinesWith("set", same.Name, 1)
	f.machinesWith("set", set("newer-patch", "v1.35.99").Name, 1)
	newerMinor := set("newer-minor", newer)
	blocked(newerMinor, skewed)
	blocked(set("older", "v1.31.0"), skewed)

	change(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newer })
	f.readControlPlane()
	blocked(set("upgrading", version), unstable)
	blocked(newerMinor, unstable)

	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = stable(newer) })
	f.machinesWith("set", newerMinor.Name, 1)
	f.machinesWith("set", "upgrading", 1)
}
