// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	provider = "capportal-system"
	lease    = "controller-leader-election-capportal"
	patience = time.Minute
)

// house is a management cluster in which managers are started, each as its ServiceAccount.
type house struct {
	*testing.T
	*WithT
	*sandbox.Sandbox
	kubeconfig string
}

// TestManagers starts managers as a Deployment would, beside each other and one after the other, on a real API server.
func TestManagers(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{
		Out: os.Stderr, WithoutManager: true, WithoutWorkloads: true,
		Portal: emulator.Options{Seed: 1, Durations: emulator.Durations{Pending: -1, Create: time.Second, Delete: time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &house{Sandbox: box}
	for _, test := range []struct {
		title string
		run   func(*house)
	}{
		{"hand over", (*house).handOver},
		{"a Secret needs no label", (*house).secretWithoutLabel},
		{"who may read the metrics", (*house).metricsReaders},
		{"a certificate for the metrics", (*house).metricsCertificate},
	} {
		t.Run(test.title, func(t *testing.T) {
			h.T, h.WithT = t, NewWithT(t)
			h.SetDefaultEventuallyTimeout(patience)
			h.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
			h.actAsManager()
			test.run(h)
		})
	}
}

// handOver ends the leader while its call to create a cluster is under way. It keeps the lease until the answer is stored,
// longer than the lease lasts; the other manager waits for that, then follows the job, and nothing is created twice.
func (h *house) handOver() {
	const underWay = 12 * time.Second
	quick := []string{"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}
	h.Expect(h.Portal.Inject(emulator.Fault{ID: "slow", Method: "POST", Path: "/kubernetes-clusters", After: true, Delay: underWay})).To(Succeed())
	first, _ := h.start("first", quick...)
	h.Eventually(h.holder).ShouldNot(BeEmpty())
	leader := h.holder()
	second, metricsOfSecond := h.start("second", quick...)
	controlPlane := h.createCluster("hand-over", nil)
	h.Eventually(h.Portal.Clusters).Should(HaveLen(1))
	h.Expect(h.scrape(metricsOfSecond)).NotTo(ContainSubstring("capportal_jobs_in_flight{"), "who does not act counts no jobs")

	go first.Stop()
	h.Eventually(h.holder).ShouldNot(Equal(leader))
	h.get(controlPlane)
	op, err := operation.Load(controlPlane)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(op != nil && op.JobID != "" || controlPlane.Spec.ClusterID != "").To(BeTrue(), "the lease is free, and the answer is not stored: %+v", op)
	h.Expect(h.creates()).To(Equal([]int{http.StatusAccepted}))
	h.Eventually(first.Done()).Should(BeClosed())
	h.Expect(first.Err()).NotTo(HaveOccurred())

	h.Eventually(func() string { h.get(controlPlane); return controlPlane.Spec.ClusterID }).Should(Equal(h.Portal.Clusters()[0].ID))
	h.Expect(h.holder()).NotTo(Or(BeEmpty(), Equal(leader)))
	h.Expect(h.creates()).To(Equal([]int{http.StatusAccepted}), "created once")
	h.watched(metricsOfSecond)
	second.Stop()
	h.Expect(second.Err()).NotTo(HaveOccurred())
	h.Eventually(h.holder).Should(BeEmpty(), "a manager that ends leaves the lease to whoever comes")
}

// watched looks at what a manager that has followed a job tells Prometheus.
func (h *house) watched(url string) {
	h.Helper()
	text := h.scrape(url)
	h.Expect(text).To(And(
		ContainSubstring(`capportal_portal_requests_total{code="",endpoint="GET /jobs/{job_id}",status="200"}`),
		ContainSubstring(`capportal_portal_logins_total{outcome="succeeded"} 1`),
		ContainSubstring(`capportal_account_limit_requests_per_second{account="hand-over/portal-identity"} 5`),
		ContainSubstring(`capportal_job_duration_seconds_count{operation="create",outcome="succeeded"} 1`),
		ContainSubstring(`capportal_jobs_in_flight{operation="create"} 0`),
	))
	email, password := h.Portal.Credentials()
	h.Expect(text).NotTo(Or(ContainSubstring(email), ContainSubstring(password)))
}

// secretWithoutLabel creates the identity Secret, without the label of --watch-filter, after everything that has it: it
// wakes its PortalCluster, and no other manager's.
func (h *house) secretWithoutLabel() {
	manager, _ := h.start("east", "--watch-filter=east")
	defer manager.Stop()
	name := "watch-filter"
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	east := h.createPortalCluster(name, "east", map[string]string{clusterv1.WatchLabel: "east"})
	west := h.createPortalCluster(name, "west", map[string]string{clusterv1.WatchLabel: "west"})
	h.Eventually(h.identityReady(east)).Should(Equal("False " + infrav1.IdentityNotFoundReason))
	// Until its own status, and what core wrote, wake it no more.
	h.Consistently(h.identityReady(east), 4*time.Second).Should(Equal("False " + infrav1.IdentityNotFoundReason))
	h.create(h.IdentitySecret(client.ObjectKey{Namespace: name, Name: "portal-identity"}))
	h.Eventually(h.identityReady(east), 20*time.Second).Should(Equal("True " + infrav1.IdentityAcceptedReason))
	h.Consistently(h.identityReady(west), 2*time.Second).Should(Equal("none"))
}

// metricsReaders asks for the metrics as docs/metrics.md says, without a token, without the right, and with both.
func (h *house) metricsReaders() {
	manager, url := h.start("secure", "--insecure-diagnostics=false")
	defer manager.Stop()
	url = strings.Replace(url, "http:", "https:", 1)
	h.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capportal-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	})
	h.Eventually(h.ask(url, "")).Should(HavePrefix("401"))
	h.Expect(h.ask(url, h.token("anybody"))()).To(HavePrefix("403"))
	h.Expect(h.ask(url, h.token("prometheus"))()).To(And(HavePrefix("200"), ContainSubstring("capportal_portal_logins_total")))
}

// metricsCertificate verifies that the metrics are served with the certificate of --metrics-cert-dir.
func (h *house) metricsCertificate() {
	const name = "capportal-metrics.capportal-system.svc"
	certificate, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	h.Expect(err).NotTo(HaveOccurred())
	dir := h.TempDir()
	h.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	h.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	manager, url := h.start("certificate", "--insecure-diagnostics=false", "--metrics-cert-dir="+dir)
	defer manager.Stop()
	trusted := x509.NewCertPool()
	h.Expect(trusted.AppendCertsFromPEM(certificate)).To(BeTrue())
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	h.Eventually(func() error {
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: name})
		if err != nil {
			return err
		}
		return connection.Close()
	}).Should(Succeed())
}

// token makes a ServiceAccount, and a token of it.
func (h *house) token(name string) string {
	h.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	h.create(account)
	request := &authenticationv1.TokenRequest{}
	h.Expect(h.Client.SubResource("token").Create(h.Context(), account, request)).To(Succeed())
	return request.Status.Token
}

// actAsManager writes the kubeconfig of the managers: the administrator's, impersonating the ServiceAccount that a release
// has, so that its roles count.
func (h *house) actAsManager() {
	h.Helper()
	accounts := &corev1.ServiceAccountList{}
	h.Expect(h.Client.List(h.Context(), accounts, client.InNamespace(provider),
		client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
	h.Expect(accounts.Items).To(HaveLen(1))
	config, err := clientcmd.LoadFromFile(h.Kubeconfig)
	h.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + provider + ":" + accounts.Items[0].Name
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + provider, "system:authenticated"}
	}
	h.kubeconfig = filepath.Join(h.Dir, "as-manager.kubeconfig")
	h.Expect(clientcmd.WriteToFile(*config, h.kubeconfig)).To(Succeed())
}

// start runs a manager, and returns where its metrics are.
func (h *house) start(name string, flags ...string) (*kubeserver.Process, string) {
	h.Helper()
	binary, err := os.Executable()
	h.Expect(err).NotTo(HaveOccurred())
	address := func() string {
		port, err := kubeserver.FreePort("127.0.0.1")
		h.Expect(err).NotTo(HaveOccurred())
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	health, metrics := address(), address()
	log := filepath.Join(h.Dir, name+".log")
	manager, err := kubeserver.Start(h.Context(), kubeserver.Spec{
		Name: name, Path: binary, Log: log, Grace: gracePeriod + 10*time.Second,
		Args: append([]string{
			"--leader-elect", "--leader-elect-namespace=" + provider, "--health-addr=" + health,
			"--diagnostics-address=" + metrics, "--insecure-diagnostics", "--allow-unverified-core", "--portal-host=127.0.0.1",
		}, flags...),
		Env: []string{asManager + "=yes", "KUBECONFIG=" + h.kubeconfig},
		Ready: func(context.Context) error {
			response, err := http.Get("http://" + health + "/readyz")
			if err == nil {
				err = response.Body.Close()
			}
			return err
		},
	})
	h.Expect(err).NotTo(HaveOccurred())
	h.Cleanup(func() {
		manager.Stop()
		if text, err := os.ReadFile(log); h.Failed() && err == nil {
			h.Logf("%s:\n%s", name, text)
		}
	})
	return manager, "http://" + metrics + "/metrics"
}

// createCluster creates all that a user would, and returns the control plane.
func (h *house) createCluster(name string, labels map[string]string) *infrav1.PortalControlPlane {
	h.Helper()
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	h.create(h.IdentitySecret(client.ObjectKey{Namespace: name, Name: "portal-identity"}))
	h.createPortalCluster(name, name, labels)
	meta := metav1.ObjectMeta{Namespace: name, Name: name}
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: meta}
	controlPlane.Spec.Version, controlPlane.Spec.Replicas = "v1.35.6", ptr.To[int32](1)
	template := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	deployment := &clusterv1.MachineDeployment{ObjectMeta: meta}
	deployment.Spec.ClusterName, deployment.Spec.Replicas = name, ptr.To[int32](1)
	deployment.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: name, Version: "v1.35.6", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
		InfrastructureRef: reference("PortalMachineTemplate", name),
	}
	for _, obj := range []client.Object{controlPlane, template, deployment} {
		h.create(obj)
	}
	return controlPlane
}

// createPortalCluster creates a Cluster and its PortalCluster.
func (h *house) createPortalCluster(namespace, name string, labels map[string]string) *infrav1.PortalCluster {
	h.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	h.create(&clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: reference("PortalCluster", name), ControlPlaneRef: reference("PortalControlPlane", name),
	}})
	portalCluster := &infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: "portal-identity"}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	h.create(portalCluster)
	return portalCluster
}

func reference(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}

func (h *house) create(obj client.Object) {
	h.Helper()
	h.Expect(h.Client.Create(h.Context(), obj)).To(Succeed())
}

func (h *house) get(obj client.Object) {
	h.Helper()
	h.Expect(h.Client.Get(h.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
}

// holder of the lease; empty: nobody.
func (h *house) holder() string {
	held := &coordinationv1.Lease{}
	if err := h.Client.Get(h.Context(), client.ObjectKey{Namespace: provider, Name: lease}, held); err != nil {
		return ""
	}
	return ptr.Deref(held.Spec.HolderIdentity, "")
}

// creates are the statuses of the requests to create a cluster, in order.
func (h *house) creates() (statuses []int) {
	for _, e := range h.Portal.RequestLog() {
		if e.Method == http.MethodPost && e.Route == "/kubernetes-clusters" {
			statuses = append(statuses, e.Status)
		}
	}
	return statuses
}

func (h *house) identityReady(c *infrav1.PortalCluster) func() string {
	return func() string {
		h.get(c)
		if ready := conditions.Get(c, infrav1.IdentityReadyCondition); ready != nil {
			return string(ready.Status) + " " + ready.Reason
		}
		return "none"
	}
}

func (h *house) scrape(url string) string {
	h.Helper()
	text := h.ask(url, "")()
	h.Expect(text).To(HavePrefix("200"))
	return text
}

// ask returns status and body of the answer to a request with the token.
func (h *house) ask(url, token string) func() string {
	// The manager's certificate is its own work; a release may mount another.
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // as said
	return func() string {
		request, err := http.NewRequestWithContext(h.Context(), http.MethodGet, url, nil)
		h.Expect(err).NotTo(HaveOccurred())
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := asker.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close() //nolint:errcheck // nothing was written to it
		body, err := io.ReadAll(response.Body)
		h.Expect(err).NotTo(HaveOccurred())
		return response.Status + "\n" + string(body)
	}
}
