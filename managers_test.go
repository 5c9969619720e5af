// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	provider = "capportal-system"
	patience = 10 * time.Minute // a test that passes never waits for it
)

// fixture is a management cluster in which managers are started, each as its ServiceAccount.
type fixture struct {
	*suite.Fixture
	kubeconfig string
}

// Eventually also looks at what is no object, such as a manager's metrics.
func (f *fixture) Eventually(actual any) AsyncAssertion { return f.WithT.Eventually(actual) }

// TestManagers starts managers as a Deployment would, beside each other and one after the other, on a real API server.
func TestManagers(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	box := suite.StartFor(t, sandbox.Options{
		WithoutManager: true, WithoutWorkloads: true,
		Portal: emulator.Options{Durations: emulator.Durations{Pending: -1, Create: time.Second, Delete: time.Second}},
	})
	// The managers have the rights of a release, not those of an administrator.
	kubeconfig, err := box.KubeconfigOf("system:serviceaccount:"+provider+":capportal-manager", "system:serviceaccounts", "system:serviceaccounts:"+provider)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Fixture: &suite.Fixture{Box: box}, kubeconfig: kubeconfig}
	for _, test := range []struct {
		title string
		run   func(*fixture)
	}{
		{"hand over", (*fixture).handOver},
		{"a Secret needs no label", (*fixture).secretWithoutLabel},
		{"who may read the metrics", (*fixture).metricsReaders},
		{"a certificate for the metrics", (*fixture).metricsCertificate},
	} {
		t.Run(test.title, func(t *testing.T) {
			f.T, f.WithT = t, NewWithT(t)
			f.SetDefaultEventuallyTimeout(patience)
			f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
			test.run(f)
		})
	}
}

// handOver ends the leader while its call to create a cluster is under way. The leader renews the lease until the answer is stored. The other
// manager waits for that, then follows the job, and nothing is created twice. The lease lasts so long that it never expires on a busy machine.
func (f *fixture) handOver() {
	lease := []string{"--leader-elect-lease-duration=300s", "--leader-elect-renew-deadline=240s", "--leader-elect-retry-period=500ms"}
	identity := f.Box.IdentitySecret(client.ObjectKey{Namespace: "hand-over", Name: "portal-identity"})
	answer := f.holdCreations(identity)
	first, _ := f.start("first", lease...)
	f.Eventually(f.holder).ShouldNot(BeEmpty())
	leader := f.holder()
	second, metricsOfSecond := f.start("second", lease...)
	controlPlane := f.createCluster(identity)
	f.Eventually(f.Box.Portal.Clusters).Should(HaveLen(1))
	f.Expect(f.scrape(metricsOfSecond)).NotTo(ContainSubstring("capportal_jobs_in_flight{"), "who does not act counts no jobs")

	go first.Stop()
	renewals := map[int64]bool{}
	f.Eventually(func() int { renewals[f.lease().Spec.RenewTime.UnixMicro()] = true; return len(renewals) }).Should(BeNumerically(">=", 6))
	f.Expect(f.holder()).To(Equal(leader), "the holder of the lease while the portal has not answered")
	answer()
	f.Eventually(f.holder).ShouldNot(Equal(leader))
	f.Get(controlPlane)
	state, err := operation.Load(controlPlane)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(state.Last != nil && state.Last.JobID != "" || controlPlane.Spec.ClusterID != "").To(BeTrue(), "the lease is free, and the answer is not stored: %+v", state.Last)
	f.Expect(f.creates()).To(Equal([]int{http.StatusAccepted}))
	f.Eventually(first.Done()).Should(BeClosed())
	f.Expect(first.Err()).NotTo(HaveOccurred())

	f.Eventually(func() string { f.Get(controlPlane); return controlPlane.Spec.ClusterID }).Should(Equal(f.Box.Portal.Clusters()[0].ID))
	f.Expect(f.holder()).NotTo(Or(BeEmpty(), Equal(leader)))
	f.Expect(f.creates()).To(Equal([]int{http.StatusAccepted}), "created once")
	f.watched(metricsOfSecond)
	second.Stop()
	f.Expect(second.Err()).NotTo(HaveOccurred())
	f.Eventually(f.holder).Should(BeEmpty(), "a manager that ends gives the lease back")
}

// holdCreations makes the Secret name a proxy of the portal. The proxy holds the answers to requests that create a cluster until the test calls
// the function that it returns.
func (f *fixture) holdCreations(identity *corev1.Secret) (answer func()) {
	f.Helper()
	answered := make(chan struct{})
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := httptest.NewRecorder()
		f.Box.Portal.ServeHTTP(response, r)
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/kubernetes-clusters") {
			<-answered
		}
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes())
	}))
	answer = sync.OnceFunc(func() { close(answered) })
	f.Cleanup(func() {
		answer()
		proxy.Close()
	})
	identity.StringData[infrav1.IdentityBaseURL] = proxy.URL
	identity.StringData[infrav1.IdentityCABundle] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}))
	return answer
}

// watched reads the metrics of a manager that has followed a job.
func (f *fixture) watched(url string) {
	f.Helper()
	text := f.scrape(url)
	f.Expect(text).To(And(
		ContainSubstring(`capportal_portal_requests_total{code="",endpoint="GET /jobs/{job_id}",status="200"}`),
		ContainSubstring(`capportal_portal_logins_total{outcome="succeeded"} 1`),
		ContainSubstring(`capportal_account_limit_requests_per_second{account="hand-over/portal-identity"} 5`),
		ContainSubstring(`capportal_job_duration_seconds_count{operation="create",outcome="succeeded"} 1`),
		ContainSubstring(`capportal_jobs_in_flight{operation="create"} 0`),
	))
	email, password := f.Box.Portal.Credentials()
	f.Expect(text).NotTo(Or(ContainSubstring(email), ContainSubstring(password)))
}

// secretWithoutLabel creates the identity Secret, without the label of --watch-filter, after everything that has it: it
// wakes its PortalCluster, and no other manager's.
func (f *fixture) secretWithoutLabel() {
	manager, _ := f.start("east", "--watch-filter=east")
	defer manager.Stop()
	name := "watch-filter"
	f.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	ready := map[string]func() string{}
	for _, label := range []string{"east", "west"} {
		o := suite.NewObjects(metav1.ObjectMeta{Namespace: name, Name: label, Labels: map[string]string{clusterv1.WatchLabel: label}}, "portal-identity")
		f.Create(o.Cluster)
		f.Create(o.PortalCluster)
		ready[label] = f.Condition(o.PortalCluster, infrav1.IdentityReadyCondition)
	}
	invalid := HavePrefix("False " + infrav1.IdentityInvalidReason)
	f.Eventually(ready["east"]).Should(invalid)
	// Until its own status, and what core wrote, wake it no more.
	f.Consistently(ready["east"], 4*time.Second).Should(invalid)
	f.Create(f.Box.IdentitySecret(client.ObjectKey{Namespace: name, Name: "portal-identity"}))
	f.Eventually(ready["east"]).WithTimeout(5 * time.Minute).Should(HavePrefix("True ")) // --sync-period would wake it after ten minutes
	f.Consistently(ready["west"], 2*time.Second).Should(Equal("none"))
}

// metricsReaders asks for the metrics as docs/reference.md says, without a token, without the right, and with both. The right is also needed to
// raise the verbosity of the log.
func (f *fixture) metricsReaders() {
	manager, url := f.start("secure", "--insecure-diagnostics=false")
	defer manager.Stop()
	url = strings.Replace(url, "http:", "https:", 1)
	f.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capportal-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	})
	f.Eventually(f.ask(http.MethodGet, url, "")).Should(HavePrefix("401"))
	anybody := f.token("anybody")
	f.Expect(f.ask(http.MethodGet, url, anybody)()).To(HavePrefix("403"))
	f.Expect(f.ask(http.MethodPut, strings.TrimSuffix(url, "/metrics")+verbosityPath, anybody)()).To(HavePrefix("403"))
	f.Expect(f.ask(http.MethodGet, url, f.token("prometheus"))()).To(And(HavePrefix("200"), ContainSubstring("capportal_portal_logins_total")))
}

// metricsCertificate verifies that the metrics are served with the certificate of --metrics-cert-dir.
func (f *fixture) metricsCertificate() {
	const name = "capportal-metrics.capportal-system.svc"
	certificate, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	f.Expect(err).NotTo(HaveOccurred())
	dir := f.TempDir()
	f.Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	f.Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	manager, url := f.start("certificate", "--insecure-diagnostics=false", "--metrics-cert-dir="+dir)
	defer manager.Stop()
	trusted := x509.NewCertPool()
	f.Expect(trusted.AppendCertsFromPEM(certificate)).To(BeTrue())
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	f.Eventually(func() error {
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: name})
		if err != nil {
			return err
		}
		return connection.Close()
	}).Should(Succeed())
}

// token makes a ServiceAccount, and a token of it.
func (f *fixture) token(name string) string {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	f.Create(account)
	request := &authenticationv1.TokenRequest{}
	f.Expect(f.Box.Client.SubResource("token").Create(f.Context(), account, request)).To(Succeed())
	return request.Status.Token
}

// start runs a manager, and returns where its metrics are.
func (f *fixture) start(name string, flags ...string) (*kubeserver.Process, string) {
	f.Helper()
	binary, err := os.Executable()
	f.Expect(err).NotTo(HaveOccurred())
	address := func() string {
		port, err := kubeserver.FreePort("127.0.0.1")
		f.Expect(err).NotTo(HaveOccurred())
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	health, metrics := address(), address()
	log := filepath.Join(f.Box.Dir, name+".log")
	manager, err := kubeserver.Start(f.Context(), kubeserver.Spec{
		Name: name, Path: binary, Log: log, Grace: gracePeriod + 10*time.Second,
		Args: append([]string{
			"--leader-elect", "--leader-elect-namespace=" + provider, "--health-addr=" + health,
			"--diagnostics-address=" + metrics, "--insecure-diagnostics", "--portal-host=127.0.0.1",
		}, flags...),
		Env:   []string{asManager + "=yes", "KUBECONFIG=" + f.kubeconfig},
		Ready: kubeserver.Probe("http://" + health + "/readyz"),
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(func() {
		manager.Stop()
		if text, err := os.ReadFile(log); f.Failed() && err == nil {
			f.Logf("%s:\n%s", name, text)
		}
	})
	return manager, "http://" + metrics + "/metrics"
}

// createCluster creates all that a user would, in the namespace of the identity Secret, and returns the control plane.
func (f *fixture) createCluster(identity *corev1.Secret) *infrav1.PortalControlPlane {
	f.Helper()
	name := identity.Namespace
	o := suite.NewObjects(metav1.ObjectMeta{Namespace: name, Name: name}, identity.Name)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, obj := range []client.Object{namespace, identity, o.Cluster, o.PortalCluster, o.ControlPlane, o.Bootstrap, o.Template, o.Deployment} {
		f.Create(obj)
	}
	return o.ControlPlane
}

// lease returns the lease of the managers. It is empty if none has had it.
func (f *fixture) lease() *coordinationv1.Lease {
	f.Helper()
	lease := &coordinationv1.Lease{}
	err := f.Box.Client.Get(f.Context(), client.ObjectKey{Namespace: provider, Name: "controller-leader-election-capportal"}, lease)
	f.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return lease
}

// holder returns the holder of the lease, or an empty name.
func (f *fixture) holder() string { return ptr.Deref(f.lease().Spec.HolderIdentity, "") }

// creates are the statuses of the requests to create a cluster, in order.
func (f *fixture) creates() (statuses []int) {
	for _, e := range f.Box.Portal.RequestLog() {
		if e.Method == http.MethodPost && e.Route == "/kubernetes-clusters" {
			statuses = append(statuses, e.Status)
		}
	}
	return statuses
}

func (f *fixture) scrape(url string) string {
	f.Helper()
	text := f.ask(http.MethodGet, url, "")()
	f.Expect(text).To(HavePrefix("200"))
	return text
}

// ask returns status and body of the answer to a request with the token.
func (f *fixture) ask(method, url, token string) func() string {
	// The manager's certificate is its own work; a release may mount another.
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	return func() string {
		request, err := http.NewRequestWithContext(f.Context(), method, url, nil)
		f.Expect(err).NotTo(HaveOccurred())
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := asker.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		f.Expect(err).NotTo(HaveOccurred())
		return response.Status + "\n" + string(body)
	}
}
