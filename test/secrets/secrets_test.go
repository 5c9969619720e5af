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
	w := newWorld(t)
	first := w.startManager("text", "-v=10", "--vmodule=*=10")
	w.createCluster()
	w.available(2)
	w.noteKubeconfig()
	w.scale(1)
	w.available(1)
	w.noteWritten("the first manager's metrics", w.metrics())
	first.Stop()
	w.Expect(first.Err()).NotTo(HaveOccurred())

	w.changePassword("Another-\"Horse\" & <8> / ü + 0?")
	second := w.startManager("json", "--logging-format=json", "-v=6")
	w.Expect(w.setVerbosity("10")).To(ContainSubstring("klog.logging.verbosity"))
	w.Eventually(w.identityReady).Should(HavePrefix("False"), "the Secret has the old password")
	w.storePassword()
	w.Eventually(w.identityReady).Should(HavePrefix("True"))
	w.renewKubeconfig()
	w.noteWritten("the second manager's metrics", w.metrics())
	w.noteObjects()
	w.deleteCluster()
	second.Stop()
	w.Expect(second.Err()).NotTo(HaveOccurred())

	w.noteLogs()
	w.noteWritten("the emulator's request log", w.requestLog.String())
	for _, what := range []string{
		"the password", "the old password", "the TOTP seed", "the reset token", "the kubeconfig's key", "the manager's token", "a reader's token",
	} {
		w.Expect(w.secrets.kinds()).To(HaveKey(what))
	}
	for what, text := range w.written {
		t.Logf("%s: %d bytes", what, len(text))
		w.Expect(text).NotTo(BeEmpty(), what)
		if found := w.secrets.in(text); len(found) > 0 {
			t.Errorf("%s: %q", what, found)
		}
	}
	for _, manager := range []string{"text.log", "json.log"} {
		if !strings.Contains(w.written[manager], "/api/v1/namespaces/default/secrets") {
			t.Errorf("%s has no request for a Secret, so the manager logs too little for this test", manager)
		}
	}
}

// createCluster creates a cluster as a user would, for a portal user with MFA.
func (w *world) createCluster() {
	w.Helper()
	secret := &corev1.Secret{}
	w.change(w.Identity, secret, func() { secret.Data[infrav1.IdentityTOTPSeed] = []byte(seed) })
	objects, err := w.GenerateCluster(w.Context(), w.cluster, "--kubernetes-version", "v1.35.6", "--worker-machine-count", "2")
	w.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		w.Expect(w.Client.Create(w.Context(), object)).To(Succeed())
	}
}

func (w *world) scale(replicas int32) {
	w.Helper()
	deployment := &clusterv1.MachineDeployment{}
	w.change(client.ObjectKey{Namespace: w.cluster.Namespace, Name: w.cluster.Name + "-workers"}, deployment, func() {
		deployment.Spec.Replicas = &replicas
	})
}

// available waits until the Cluster is available with this many Machines.
func (w *world) available(workers int) {
	w.Helper()
	w.Eventually(func(g Gomega) {
		machines := &clusterv1.MachineList{}
		g.Expect(w.Client.List(w.Context(), machines, client.InNamespace(w.cluster.Namespace))).To(Succeed())
		g.Expect(machines.Items).To(HaveLen(workers))
		for _, m := range machines.Items {
			g.Expect(m.Status.NodeRef.Name).NotTo(BeEmpty())
		}
		g.Expect(w.condition(&clusterv1.Cluster{}, clusterv1.ClusterAvailableCondition)).To(HavePrefix("True"))
	}).Should(Succeed())
}

// storePassword writes the new password into the identity Secret.
func (w *world) storePassword() {
	w.Helper()
	secret := &corev1.Secret{}
	w.change(w.Identity, secret, func() { secret.Data[infrav1.IdentityPassword] = []byte(w.password) })
}

// renewKubeconfig deletes the kubeconfig Secret, and waits until a new one exists.
func (w *world) renewKubeconfig() {
	w.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.cluster.Namespace, Name: w.cluster.Name + "-kubeconfig"}
	w.Expect(w.Client.Get(w.Context(), key, secret)).To(Succeed())
	before := secret.UID
	w.Expect(w.Client.Delete(w.Context(), secret)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.Client.Get(w.Context(), key, secret)).To(Succeed())
		g.Expect(secret.UID).NotTo(Equal(before))
	}).Should(Succeed())
	w.noteKubeconfig()
}

func (w *world) deleteCluster() {
	w.Helper()
	cluster := &clusterv1.Cluster{}
	w.Expect(w.Client.Get(w.Context(), w.cluster, cluster)).To(Succeed())
	w.Expect(w.Client.Delete(w.Context(), cluster)).To(Succeed())
	w.Eventually(func() bool { return apierrors.IsNotFound(w.Client.Get(w.Context(), w.cluster, cluster)) }).Should(BeTrue())
}

func (w *world) identityReady() string {
	return w.condition(&infrav1.PortalCluster{}, infrav1.IdentityReadyCondition)
}
