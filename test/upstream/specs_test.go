// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

var _ = Describe(text("When testing MachineDeployment scale out/in"), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   here.Clusterctl,
			BootstrapClusterProxy:  proxy,
			ArtifactFolder:         here.Artifacts,
			InfrastructureProvider: ptr.To(provider),
			ControlPlaneWaiters:    waiters,
			PostNamespaceCreated:   prepareNamespace,
		}
	})
})

var _ = Describe(text("When testing MachinePools"), func() {
	e2e.MachinePoolSpec(ctx, func() e2e.MachinePoolInput {
		return e2e.MachinePoolInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   here.Clusterctl,
			BootstrapClusterProxy:  proxy,
			ArtifactFolder:         here.Artifacts,
			InfrastructureProvider: ptr.To(provider),
			Flavor:                 ptr.To("machinepool"),
			ControlPlaneWaiters:    waiters,
			PostNamespaceCreated:   prepareNamespace,
		}
	})
})

// kinds returns a filter for objects of these kinds.
func kinds(names ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
	return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
		return slices.Contains(names, object.Kind)
	}
}

var _ = Describe(text("When performing cluster deletion with ClusterClass [ClusterClass]"), func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig:                e2eConfig,
			ClusterctlConfigPath:     here.Clusterctl,
			BootstrapClusterProxy:    proxy,
			ArtifactFolder:           here.Artifacts,
			InfrastructureProvider:   ptr.To(provider),
			Flavor:                   ptr.To("topology"),
			ControlPlaneMachineCount: ptr.To[int64](3),
			ControlPlaneWaiters:      waiters,
			PostNamespaceCreated:     prepareNamespace,
			// As in upstream: workers first, then the control plane, then the infrastructure.
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{ObjectFilter: kinds("Machine", "MachineDeployment", "MachineSet"), BlockingObjectFilter: kinds("Machine")},
				{ObjectFilter: kinds("PortalControlPlane"), BlockingObjectFilter: kinds("PortalControlPlane")},
				{ObjectFilter: kinds("PortalCluster"), BlockingObjectFilter: kinds("PortalCluster")},
			},
		}
	})
})

var _ = Describe(text("When testing Node drain"), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   here.Clusterctl,
			BootstrapClusterProxy:  proxy,
			ArtifactFolder:         here.Artifacts,
			InfrastructureProvider: ptr.To(provider),
			Flavor:                 ptr.To("topology"),
			ControlPlaneWaiters:    waiters,
			PostNamespaceCreated:   prepareNamespace,
		}
	})
})

var _ = Describe(text("When testing ClusterClass changes [ClusterClass]"), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig:                e2eConfig,
			ClusterctlConfigPath:     here.Clusterctl,
			BootstrapClusterProxy:    proxy,
			ArtifactFolder:           here.Artifacts,
			InfrastructureProvider:   ptr.To(provider),
			Flavor:                   "topology",
			ControlPlaneWaiters:      waiters,
			PostNamespaceCreated:     prepareNamespace,
			ModifyControlPlaneFields: map[string]any{"spec.description": "Changed in the ClusterClass"},
			// A Cluster's variables cover all fields of a PortalMachineTemplate, so the template has no field to change.
		}
	})
})

var _ = Describe(text("When testing the machinery for scale testing using in-memory backend"), longest, func() {
	e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig:                       e2eConfig,
			ClusterctlConfigPath:            here.Clusterctl,
			BootstrapClusterProxy:           proxy,
			ArtifactFolder:                  here.Artifacts,
			InfrastructureProvider:          ptr.To(provider),
			Flavor:                          ptr.To("topology"),
			PostNamespaceCreated:            prepareNamespace,
			ClusterCount:                    ptr.To[int64](20),
			Concurrency:                     ptr.To[int64](5),
			WorkerPerMachineDeploymentCount: ptr.To[int64](1),
		}
	})
})
