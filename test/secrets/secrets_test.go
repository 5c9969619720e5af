// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"net/http"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestNoVerbosityWritesSecrets checks a cluster's life with two managers that log everything. Flags set the verbosity of the first, which
// logs text. The diagnostics endpoint sets that of the second, which logs JSON. In between the portal's user gets another password.
func TestNoVerbosityWritesSecrets(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	f := newFixture(t)
	f.startManager("-v=10", "--vmodule=*=10")
	f.createCluster()
	f.AwaitReady(f.cluster, 2)
	f.noteKubeconfig()
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.cluster.Name + "-workers"}}
	suite.Change(f.Fixture, deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To[int32](1) })
	f.Eventually(f.Machines).Should(HaveLen(1))
	f.written["the first manager's metrics"] = f.diagnostics(http.MethodGet, "/metrics", "")
	f.stopManager("text.log")

	f.changePassword("Another-\"Horse\" & <8> / ü + 0?")
	f.startManager("--logging-format=json", "-v=6")
	f.Expect(f.diagnostics(http.MethodPut, "/debug/flags/v", "10")).To(ContainSubstring("klog.logging.verbosity"))
	ready := f.Condition(&infrav1.PortalCluster{ObjectMeta: f.cluster.ObjectMeta}, infrav1.IdentityReadyCondition)
	f.Eventually(ready).Should(HavePrefix("False"), "the Secret has the old password")
	f.store(infrav1.IdentityPassword, f.password)
	f.Eventually(ready).Should(HavePrefix("True"))
	f.renewKubeconfig()
	f.written["the second manager's metrics"] = f.diagnostics(http.MethodGet, "/metrics", "")
	f.noteObjects()
	f.Expect(f.Box.Client.Delete(t.Context(), f.cluster)).To(Succeed())
	f.Eventually(f.Gone(f.cluster)).Should(BeTrue())
	f.stopManager("json.log")

	f.noteLogs()
	requests, err := os.ReadFile(f.requestLog)
	f.Expect(err).NotTo(HaveOccurred())
	f.written["the emulator's request log"] = string(requests)
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
	f.store(infrav1.IdentityTOTPSeed, seed)
	objects, err := f.Box.GenerateCluster(f.Context(), client.ObjectKeyFromObject(f.cluster), "--kubernetes-version", "v1.35.6", "--worker-machine-count", "2")
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		f.Create(object)
	}
}

// store writes a value into the identity Secret.
func (f *fixture) store(key, value string) {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Box.Identity.Namespace, Name: f.Box.Identity.Name}}
	suite.Change(f.Fixture, secret, func(s *corev1.Secret) { s.Data[key] = []byte(value) })
}

// renewKubeconfig deletes the kubeconfig Secret, and waits until a new one exists.
func (f *fixture) renewKubeconfig() {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.cluster.Name + "-kubeconfig"}}
	f.Get(secret)
	before := secret.UID
	f.Expect(f.Box.Client.Delete(f.Context(), secret)).To(Succeed())
	f.Eventually(func() (types.UID, error) {
		err := f.Box.Client.Get(f.Context(), client.ObjectKeyFromObject(secret), secret)
		return secret.UID, err
	}).ShouldNot(Equal(before))
	f.noteKubeconfig()
}
