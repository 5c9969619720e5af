// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
)

// quickStart returns the input of upstream's quick start with a flavor, and with a hook that runs once the cluster is ready.
func quickStart(flavor string, workers int64, hook func(proxy framework.ClusterProxy, namespace, cluster string)) func() e2e.QuickStartSpecInput {
	return func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig:               e2eConfig,
			ClusterctlConfigPath:    here.Clusterctl,
			BootstrapClusterProxy:   proxy,
			ArtifactFolder:          here.Artifacts,
			InfrastructureProvider:  ptr.To(provider),
			Flavor:                  ptr.To(flavor),
			WorkerMachineCount:      ptr.To(workers),
			ControlPlaneWaiters:     waiters,
			PostNamespaceCreated:    prepareNamespace,
			PostMachinesProvisioned: hook,
		}
	}
}

// validate returns a hook that runs upstream's validators, as upstream's quick starts do.
func validate(withTopology bool) func(proxy framework.ClusterProxy, namespace, cluster string) {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
		finalizers := framework.CoreFinalizersAssertionWithLegacyClusters
		if withTopology {
			finalizers = framework.CoreFinalizersAssertionWithClassyClusters
		}
		By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, cluster, filter,
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, portalOwners(withTopology))
		By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, cluster, filter,
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, portalOwners(withTopology))
		By("Checking that finalizers are resilient")
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, cluster, filter, finalizers, framework.ExpFinalizersAssertion, portalFinalizers)
		By("Checking that resourceVersions are stable")
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy:             proxy,
			Namespace:                namespace,
			OwnerGraphFilterFunction: filter,
			WaitToBecomeStable:       e2eConfig.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
			WaitToRemainStable:       e2eConfig.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
		})
	}
}

// upgrade scales the pool of a Cluster with a topology, and upgrades the Cluster. Upstream's own spec also upgrades etcd and DNS of a
// KubeadmControlPlane.
func upgrade(proxy framework.ClusterProxy, namespace, name string) {
	c := proxy.GetClient()
	cluster := framework.GetClusterByName(ctx, framework.GetClusterByNameInput{Getter: c, Name: name, Namespace: namespace})
	framework.ScaleMachinePoolTopologyAndWait(ctx, framework.ScaleMachinePoolTopologyAndWaitInput{
		ClusterProxy:        proxy,
		Cluster:             cluster,
		Replicas:            2,
		Getter:              c,
		WaitForMachinePools: e2eConfig.GetIntervals("quick-start", "wait-machine-pool-nodes"),
	})
	framework.UpgradeClusterTopologyAndWaitForUpgrade(ctx, framework.UpgradeClusterTopologyAndWaitForUpgradeInput{
		ClusterProxy: proxy,
		Cluster:      cluster,
		ControlPlane: standIn(cluster),
		MachineDeployments: framework.GetMachineDeploymentsByCluster(ctx, framework.GetMachineDeploymentsByClusterInput{
			Lister: c, ClusterName: name, Namespace: namespace,
		}),
		MachinePools: framework.GetMachinePoolsByCluster(ctx, framework.GetMachinePoolsByClusterInput{
			Lister: c, ClusterName: name, Namespace: namespace,
		}),
		KubernetesUpgradeVersion:             e2eConfig.MustGetVariable(e2e.KubernetesVersionUpgradeTo),
		SkipKubeProxyCheck:                   true, // the emulated portal runs no kube-proxy
		WaitForMachineDeploymentToBeUpgraded: e2eConfig.GetIntervals("quick-start", "wait-machine-deployment-upgrade"),
		WaitForMachinePoolToBeUpgraded:       e2eConfig.GetIntervals("quick-start", "wait-machine-pool-upgrade"),
	})
	Expect(framework.GetClusterByName(ctx, framework.GetClusterByNameInput{Getter: c, Name: name, Namespace: namespace}).Spec.Topology.Version).
		To(Equal(e2eConfig.MustGetVariable(e2e.KubernetesVersionUpgradeTo)))
}

// longest marks the specs that take longest. They run first, so that no process starts one of them late and ends long after the others.
const longest = SpecPriority(1)

var _ = Describe(text("When following the Cluster API quick-start"), longest, func() {
	e2e.QuickStartSpec(ctx, quickStart("", 1, validate(false)))
})

var _ = Describe(text("When following the Cluster API quick-start with ClusterClass [PR-Blocking] [ClusterClass]"), longest, func() {
	e2e.QuickStartSpec(ctx, quickStart("topology-pool", 1, validate(true)))
})

var _ = Describe(text("When following the Cluster API quick-start with ClusterClass without any worker definitions [ClusterClass]"), func() {
	e2e.QuickStartSpec(ctx, quickStart("topology", 0, nil))
})

var _ = Describe(text("When upgrading a workload cluster using ClusterClass [ClusterClass]"), func() {
	e2e.QuickStartSpec(ctx, quickStart("topology-pool", 2, upgrade))
})
