// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waiters replaces upstream's waiters, which wait for the Machines of a KubeadmControlPlane. These wait for the status that Cluster API
// reports for any control plane.
var waiters = clusterctl.ControlPlaneWaiters{
	WaitForControlPlaneInitialized: func(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
		waitFor(ctx, input, result.Cluster, clusterv1.ClusterControlPlaneInitializedCondition)
		result.ControlPlane = standIn(result.Cluster)
	},
	WaitForControlPlaneMachinesReady: func(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
		waitFor(ctx, input, result.Cluster, clusterv1.ClusterControlPlaneAvailableCondition)
	},
}

// standIn returns the KubeadmControlPlane that specs see. Some specs use its name, and deploy as many Pods to its nodes as it has replicas.
func standIn(cluster *clusterv1.Cluster) *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name},
		Spec:       controlplanev1.KubeadmControlPlaneSpec{Replicas: ptr.To[int32](0)},
	}
}

func waitFor(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, cluster *clusterv1.Cluster, condition string) {
	By("Waiting for the Cluster's condition " + condition)
	Eventually(func(g Gomega) {
		now := &clusterv1.Cluster{}
		g.Expect(input.ClusterProxy.GetClient().Get(ctx, client.ObjectKeyFromObject(cluster), now)).To(Succeed())
		g.Expect(conditions.IsTrue(now, condition)).To(BeTrue(), "%v", now.Status.Conditions)
	}, input.WaitForControlPlaneIntervals...).Should(Succeed())
}

// prepareNamespace creates the identity Secret in a spec's namespace.
func prepareNamespace(proxy framework.ClusterProxy, namespace string) {
	identity := &corev1.Secret{}
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "portal-identity"}
	Expect(proxy.GetClient().Get(ctx, key, identity)).To(Succeed(), "the management cluster needs the identity Secret %s", key)
	Expect(proxy.GetClient().Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity.Name},
		Data:       maps.Clone(identity.Data),
	})).To(Succeed())
}
