// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestNoVerbosityWritesSecrets checks a cluster's life with two managers that log everything. Flags set the verbosity of the first, which
// logs text. The diagnostics endpoint sets that of the second, which logs JSON. In between the portal's user gets another password.
func TestNoVerbosityWritesSecrets(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	f := newFixture(t)
	first := f.startManager("text", "-v=10", "--vmodule=*=10")
	f.createCluster()
	f.available(2)
	f.noteKubeconfig()
	f.scale(1)
	f.available(1)
	f.noteWritten("the first manager's metrics", f.metrics())
	first.Stop()
	f.Expect(first.Err()).NotTo(HaveOccurred())

	f.changePassword("Another-\"Horse\" & <8> / ü + 0?")
	second := f.startManager("json", "--logging-format=json", "-v=6")
	f.Expect(f.setVerbosity("10")).To(ContainSubstring("klog.logging.verbosity"))
	f.Eventually(f.identityReady).Should(HavePrefix("False"), "the Secret has the old password")
	f.storePassword()
	f.Eventually(f.identityReady).Should(HavePrefix("True"))
	f.renewKubeconfig()
	f.noteWritten("the second manager's metrics", f.metrics())
	f.noteObjects()
	f.deleteCluster()
	second.Stop()
	f.Expect(second.Err()).NotTo(HaveOccurred())

	f.noteLogs()
	f.noteWritten("the emulator's request log", f.requestLog.String())
	for _, what := range []string{
		"the password", "the old password", "the TOTP seed", "the reset token", "the kubeconfig's key", "the manager's token", "a reader's token",
	} {
		f.Expect(f.secrets).To(ContainElement(what))
	}
	for what, text := range f.written {
		t.Logf("%s: %d bytes", what, len(text))
		f.Expect(text).NotTo(BeEmpty(), what)
		if found := f.secrets.in(text); len(found) > 0 {
			t.Errorf("%s: %q", what, found)
		}
	}
	for _, manager := range []string{"text.log", "json.log"} {
		if !strings.Contains(f.written[manager], "/api/v1/namespaces/default/secrets") {
			t.Errorf("%s has no request for a Secret, so the manager logs too little for this test", manager)
		}
	}
}

// createCluster creates a cluster as a user would, for a portal user with MFA.
func (f *fixture) createCluster() {
	f.Helper()
	secret := &corev1.Secret{}
	f.change(f.Identity, secret, func() { secret.Data[infrav1.IdentityTOTPSeed] = []byte(seed) })
	objects, err := f.GenerateCluster(f.Context(), f.cluster, "--kubernetes-version", "v1.35.6", "--worker-machine-count", "2")
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		f.Expect(f.Client.Create(f.Context(), object)).To(Succeed())
	}
}

func (f *fixture) scale(replicas int32) {
	f.Helper()
	deployment := &clusterv1.MachineDeployment{}
	f.change(client.ObjectKey{Namespace: f.cluster.Namespace, Name: f.cluster.Name + "-workers"}, deployment, func() {
		deployment.Spec.Replicas = &replicas
	})
}

// available waits until the Cluster is available with this many Machines.
func (f *fixture) available(workers int) {
	f.Helper()
	f.Eventually(func(g Gomega) {
		machines := &clusterv1.MachineList{}
		g.Expect(f.Client.List(f.Context(), machines, client.InNamespace(f.cluster.Namespace))).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(workers))
		for _, m := range machines.Items {
			g.Expect(m.Status.NodeRef.Name).NotTo(BeEmpty())
		}
		g.Expect(f.condition(&clusterv1.Cluster{}, clusterv1.ClusterAvailableCondition)).To(HavePrefix("True"))
	}).Should(Succeed())
}

// storePassword writes the new password into the identity Secret.
func (f *fixture) storePassword() {
	f.Helper()
	secret := &corev1.Secret{}
	f.change(f.Identity, secret, func() { secret.Data[infrav1.IdentityPassword] = []byte(f.password) })
}

// renewKubeconfig deletes the kubeconfig Secret, and waits until a new one exists.
func (f *fixture) renewKubeconfig() {
	f.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: f.cluster.Namespace, Name: f.cluster.Name + "-kubeconfig"}
	f.Expect(f.Client.Get(f.Context(), key, secret)).To(Succeed())
	before := secret.UID
	f.Expect(f.Client.Delete(f.Context(), secret)).To(Succeed())
	f.Eventually(func(g Gomega) {
		g.Expect(f.Client.Get(f.Context(), key, secret)).To(Succeed())
		g.Expect(secret.UID).NotTo(Equal(before))
	}).Should(Succeed())
	f.noteKubeconfig()
}

func (f *fixture) deleteCluster() {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.Expect(f.Client.Get(f.Context(), f.cluster, cluster)).To(Succeed())
	f.Expect(f.Client.Delete(f.Context(), cluster)).To(Succeed())
	f.Eventually(func() bool { return apierrors.IsNotFound(f.Client.Get(f.Context(), f.cluster, cluster)) }).Should(BeTrue())
}

func (f *fixture) identityReady() string {
	return f.condition(&infrav1.PortalCluster{}, infrav1.IdentityReadyCondition)
}
