// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe(text("When testing MachineDeployment remediation"), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   here.Clusterctl,
			BootstrapClusterProxy:  proxy,
			ArtifactFolder:         here.Artifacts,
			InfrastructureProvider: ptr.To(provider),
			ControlPlaneWaiters:    waiters,
			PostNamespaceCreated: func(proxy framework.ClusterProxy, namespace string) {
				prepareNamespace(proxy, namespace)
				repairNodes(proxy, namespace)
			},
		}
	})
})

const (
	unhealthy  = corev1.NodeConditionType("e2e.remediation.condition")
	remediated = "infrastructure.cluster.x-k8s.io/remediated"
)

// repairNodes plays the person who repairs a node at the portal. The spec expects a new node after remediation, but the portal cannot
// replace a chosen node. So a new Machine gets the old node and waits for its repair. A node is repaired once the provider has recorded
// that a Machine of it was replaced, which the spec itself does not check.
func repairNodes(proxy framework.ClusterProxy, namespace string) {
	beside(func(ctx context.Context) {
		_, kubeconfig := firstCluster(ctx, proxy, namespace)
		if ctx.Err() != nil {
			return
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		workload, err := client.New(config, client.Options{Scheme: proxy.GetScheme()})
		Expect(err).NotTo(HaveOccurred())
		wait.UntilWithContext(ctx, func(ctx context.Context) { repair(ctx, workload) }, time.Second)
	})
}

// repair removes the condition from nodes. It retries failed updates, because kubelets write the status, too.
func repair(ctx context.Context, workload client.Client) {
	nodes := &corev1.NodeList{}
	if err := workload.List(ctx, nodes); err != nil {
		return
	}
	for _, node := range nodes.Items {
		if node.Annotations[remediated] == "" {
			continue
		}
		before := len(node.Status.Conditions)
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == unhealthy })
		if len(node.Status.Conditions) < before {
			_ = workload.Status().Update(ctx, &node)
		}
	}
}
