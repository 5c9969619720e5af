// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// autoscaler returns the path of the real cluster-autoscaler.
func autoscaler() string {
	return cmp.Or(os.Getenv("CLUSTER_AUTOSCALER"), filepath.Join(root, "bin", "cluster-autoscaler"))
}

var _ = Describe(text("When using the autoscaler with Cluster API using ClusterClass [ClusterClass]"), func() {
	BeforeEach(func() {
		if _, err := os.Stat(autoscaler()); err != nil {
			Skip("no cluster-autoscaler: docs/development/testing.md says how to get it")
		}
	})
	e2e.AutoscalerSpec(ctx, func() e2e.AutoscalerSpecInput {
		return e2e.AutoscalerSpecInput{
			E2EConfig:                         e2eConfig,
			ClusterctlConfigPath:              here.Clusterctl,
			BootstrapClusterProxy:             proxy,
			ArtifactFolder:                    here.Artifacts,
			InfrastructureProvider:            ptr.To(provider),
			Flavor:                            ptr.To("topology-autoscaler"),
			InfrastructureMachineTemplateKind: "portalmachinetemplates",
			AutoscalerVersion:                 "v1.36.1",
			ControlPlaneWaiters:               waiters,
			PostNamespaceCreated: func(proxy framework.ClusterProxy, namespace string) {
				prepareNamespace(proxy, namespace)
				publishAddress(proxy)
				runAutoscaler(proxy, namespace)
			},
		}
	})
})

// publishAddress creates the ConfigMap in which kubeadm publishes the API server's address. The spec reads it, but the sandbox does not use
// kubeadm.
func publishAddress(proxy framework.ClusterProxy) {
	config := proxy.GetRESTConfig()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: config.Host, CertificateAuthorityData: config.CAData},
	}})
	Expect(err).NotTo(HaveOccurred())
	err = proxy.GetClient().Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(kubeconfig)},
	})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// runAutoscaler runs the autoscaler as a process until the spec ends. The Deployment that the spec creates has no effect, because the nodes
// of the emulated portal run no containers.
func runAutoscaler(proxy framework.ClusterProxy, namespace string) {
	beside(func(ctx context.Context) {
		cluster, kubeconfig := firstCluster(ctx, proxy, namespace)
		if ctx.Err() != nil {
			return
		}
		path := filepath.Join(here.Artifacts, namespace+".kubeconfig")
		Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
		log, err := os.Create(filepath.Join(here.Artifacts, namespace+"-autoscaler.log"))
		Expect(err).NotTo(HaveOccurred())
		defer log.Close()
		cmd := exec.CommandContext(ctx, autoscaler(),
			"--cloud-provider=clusterapi", "--clusterapi-cloud-config-authoritative",
			"--kubeconfig="+path, "--cloud-config="+proxy.GetKubeconfigPath(),
			"--node-group-auto-discovery=clusterapi:namespace="+namespace+",clusterName="+cluster,
			"--address=127.0.0.1:0", "--leader-elect=false",
			"--scan-interval=5s", "--scale-down-unneeded-time=30s", "--scale-down-delay-after-add=10s")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			Fail("the autoscaler ended by itself, see " + log.Name() + ": " + err.Error())
		}
	})
}

// beside runs do concurrently with the spec, until the spec ends.
func beside(do func(ctx context.Context)) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	DeferCleanup(func() {
		stop()
		Eventually(ended, time.Minute).Should(BeClosed())
	})
	go func() {
		defer close(ended)
		defer GinkgoRecover()
		do(running)
	}()
}

// firstCluster waits for a Cluster in the namespace and its kubeconfig.
func firstCluster(ctx context.Context, proxy framework.ClusterProxy, namespace string) (name string, kubeconfig []byte) {
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		clusters, secret := &clusterv1.ClusterList{}, &corev1.Secret{}
		if err := proxy.GetClient().List(ctx, clusters, client.InNamespace(namespace)); err != nil || len(clusters.Items) != 1 {
			return false, nil
		}
		name = clusters.Items[0].Name
		err := proxy.GetClient().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-kubeconfig"}, secret)
		kubeconfig = secret.Data["value"]
		return err == nil, nil
	})
	return name, kubeconfig
}
