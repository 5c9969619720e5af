// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import "slices"

// row is one of upstream's specs: a Describe in upstream's e2e/*_test.go.
type row struct {
	text    string
	runs    bool
	patches []string // files whose patches change what the spec does here
	why     string   // why the spec does not run, or how it differs here
}

const (
	kubeadmMachines = "The portal owns the control nodes. They have no Machines and no KubeadmControlPlane."
	conformance     = "The nodes of the emulated portal run no containers. At a real portal this tests the portal's Kubernetes."
	selfHosted      = "The nodes of the emulated portal run no containers. test/ownership moves Clusters between management clusters."
	oldReleases     = "It installs releases as images with clusterctl, in a kind cluster of its own. In the sandbox they are processes. There make test-upgrade replaces the previous release, and on kind test/e2e does, with clusterctl upgrade apply."
	extension       = "Upstream's test extension works with a KubeadmControlPlane only."
	addressFamilies = "The portal decides on the addresses of its nodes."
)

// catalogue lists all specs of upstream's version. TestCatalogue compares it with the module.
var catalogue = []row{
	{text: "When following the Cluster API quick-start", runs: true,
		why: "With upstream's validators."},
	{text: "When following the Cluster API quick-start with ClusterClass [PR-Blocking] [ClusterClass]", runs: true,
		why: "With a MachinePool, too, and upstream's validators."},
	{text: "When following the Cluster API quick-start with ClusterClass without any worker definitions [ClusterClass]", runs: true, patches: []string{"e2e/quick_start.go"},
		why: "With a MachineDeployment of 0 replicas."},
	{text: "When upgrading a workload cluster using ClusterClass [ClusterClass]", runs: true, patches: []string{"framework/cluster_topology_helpers.go"},
		why: "The quick start's hook upgrades a MachineDeployment and a MachinePool."},
	{text: "When testing MachineDeployment scale out/in", runs: true},
	{text: "When testing MachinePools", runs: true, patches: []string{"e2e/machine_pool.go"},
		why: "Scaled out, in and to zero."},
	{text: "When performing cluster deletion with ClusterClass [ClusterClass]", runs: true},
	{text: "When testing Node drain", runs: true, patches: []string{"e2e/node_drain.go"},
		why: "Without volumes that block."},
	{text: "When testing ClusterClass changes [ClusterClass]", runs: true, patches: []string{"e2e/clusterclass_changes.go"}},
	{text: "When testing the machinery for scale testing using in-memory backend", runs: true, patches: []string{"e2e/scale.go", "framework/cluster_topology_helpers.go"},
		why: "20 clusters, 5 at a time."},
	{text: "When using the autoscaler with Cluster API using ClusterClass [ClusterClass]", runs: true,
		why: "With the real cluster-autoscaler."},

	{text: "When testing ClusterClass rollouts [ClusterClass]", why: "It compares labels and taints with what kubeadm's providers make of them, also for the control plane."},
	{text: "When following the Cluster API quick-start with v1beta1 ClusterClass [ClusterClass]", why: "Not yet: it needs upstream's test extension, an image that runs in the management cluster."},
	{text: "When following the Cluster API quick-start with IPv6 [IPv6]", why: addressFamilies},
	{text: "When following the Cluster API quick-start with dualstack and ipv4 primary [IPv6]", why: addressFamilies},
	{text: "When following the Cluster API quick-start with dualstack and ipv6 primary [IPv6]", why: addressFamilies},
	{text: "When following the Cluster API quick-start with Ignition", why: "It is about a format of kubeadm's bootstrap data. The portal bootstraps its nodes."},
	{text: "When upgrading a workload cluster using ClusterClass with a HA control plane [ClusterClass]", why: kubeadmMachines},
	{text: "When upgrading a workload cluster using ClusterClass with a HA control plane using scale-in rollout [ClusterClass]", why: kubeadmMachines},
	{text: "When upgrading a workload cluster using ClusterClass and testing K8S conformance [Conformance] [K8s-Upgrade] [ClusterClass]", why: conformance},
	{text: "When testing K8S conformance [Conformance] [K8s-Install]", why: conformance},
	{text: "When testing K8S conformance with K8S latest ci [Conformance] [K8s-Install-ci-latest]", why: conformance},
	{text: "When upgrading a workload cluster using ClusterClass with RuntimeSDK [ClusterClass]", why: extension},
	{text: "When upgrading a workload cluster using ClusterClass in a different NS with RuntimeSDK [ClusterClass]", why: extension},
	{text: "When performing chained upgrades for workload cluster using ClusterClass in a different NS with RuntimeSDK [ClusterClass]", why: extension},
	{text: "When in-place updating a workload cluster using ClusterClass", why: "It updates Machines in place with upstream's test extension. Here a new Machine takes over the node, which stays."},
	{text: "When testing clusterctl upgrades using ClusterClass (v1.11=>current) [ClusterClass]", why: oldReleases},
	{text: "When testing clusterctl upgrades using ClusterClass (v1.12=>current) [ClusterClass]", why: oldReleases},
	{text: "When testing clusterctl upgrades using ClusterClass (v1.13=>current) [ClusterClass]", why: oldReleases},
	{text: "When testing clusterctl upgrades using ClusterClass (v1.13=>current) on K8S latest ci mgmt cluster [ClusterClass]", why: oldReleases},
	{text: "When testing Cluster API working on self-hosted clusters using ClusterClass [ClusterClass]", why: selfHosted},
	{text: "When testing Cluster API working on self-hosted clusters using ClusterClass with a HA control plane [ClusterClass]", why: selfHosted},
	{text: "When testing Cluster API working on single-node self-hosted clusters using ClusterClass [ClusterClass]", why: selfHosted},
	{text: "When testing KCP adoption", why: kubeadmMachines},
	{text: "When testing KCP infra adoption [ClusterClass]", why: kubeadmMachines},
	{text: "When testing KCP and MachineDeployment rolling upgrades and in-place taint propagation", why: kubeadmMachines},
	{text: "When testing KCP remediation", why: kubeadmMachines},
	{text: "When testing MachineDeployment remediation", why: "The provider keeps bound Machines from remediation: a new Machine would get the same node."},
	{text: "When a worker joins with kubeadm with an older version than the control plane", why: "It is about kubeadm join. The portal joins its nodes."},
}

// text returns the text of a spec that runs according to the catalogue.
func text(of string) string {
	if !slices.ContainsFunc(catalogue, func(r row) bool { return r.text == of && r.runs }) {
		panic("catalogue_test.go does not say that this spec runs: " + of)
	}
	return of
}
