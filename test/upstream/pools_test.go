// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
)

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
