// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	email     = "canary@portal.example"
	seed      = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	provider  = "capportal-system"
	clientKey = "the kubeconfig's key"
)

// fixture is a sandbox with known secrets, and everything that was written in it.
type fixture struct {
	*suite.Fixture
	cluster    *clusterv1.Cluster
	password   string
	requestLog *requestLog
	secrets    secrets
	written    map[string]string
	address    string // of the running manager's diagnostics
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{password: canary, requestLog: &requestLog{}, secrets: secrets{}, written: map[string]string{}}
	f.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary"}}
	f.secrets.add("the old password", canary)
	f.secrets.add("the TOTP seed", seed)
	box := suite.StartFor(t, sandbox.Options{
		Dir: t.TempDir(), WithoutManager: true,
		Portal: emulator.Options{
			RequestLogTo: f.requestLog, Users: []emulator.User{{Email: email, Password: canary, TOTPSeed: seed}},
			Durations: emulator.Durations{Pending: -1, Create: time.Second, Scale: time.Second, Delete: time.Second},
		},
	})
	f.Fixture = &suite.Fixture{T: t, WithT: suite.Patient(t), Box: box, Namespace: f.cluster.Namespace}
	f.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:kube-public"}},
	})
	return f
}

// startManager runs the manager that make build has built, with a token of its ServiceAccount as in a Pod, and returns when the manager is
// ready.
func (f *fixture) startManager(name string, flags ...string) *kubeserver.Process {
	f.Helper()
	kubeconfig := filepath.Join(f.TempDir(), "manager.kubeconfig")
	f.writeKubeconfig(kubeconfig)
	health := f.freeAddress()
	f.address = f.freeAddress()
	manager, err := kubeserver.Start(f.Context(), kubeserver.Spec{
		Name: name, Path: f.Box.Binary("manager"), Log: filepath.Join(f.Box.Dir, name+".log"), Grace: 100 * time.Second,
		Args:  append([]string{"--health-addr=" + health, "--diagnostics-address=" + f.address, "--portal-host=127.0.0.1"}, flags...),
		Env:   []string{"KUBECONFIG=" + kubeconfig},
		Ready: kubeserver.Probe("http://" + health + "/readyz"),
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(manager.Stop)
	return manager
}

func (f *fixture) writeKubeconfig(path string) {
	f.Helper()
	accounts := &corev1.ServiceAccountList{}
	f.Expect(f.Box.Client.List(f.Context(), accounts, client.InNamespace(provider),
		client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
	f.Expect(accounts.Items).To(HaveLen(1))
	config, err := clientcmd.LoadFromFile(f.Box.Kubeconfig)
	f.Expect(err).NotTo(HaveOccurred())
	token := f.token(&accounts.Items[0], "the manager's token")
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	f.Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
}

func (f *fixture) token(account *corev1.ServiceAccount, what string) string {
	f.Helper()
	request := &authenticationv1.TokenRequest{}
	f.Expect(f.Box.Client.SubResource("token").Create(f.Context(), account, request)).To(Succeed())
	f.secrets.add(what, request.Status.Token[strings.LastIndex(request.Status.Token, ".")+1:]) // tokens differ only in their signatures
	return request.Status.Token
}

func (f *fixture) freeAddress() string {
	f.Helper()
	port, err := kubeserver.FreePort("127.0.0.1")
	f.Expect(err).NotTo(HaveOccurred())
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// metrics returns the metrics as Prometheus would read them.
func (f *fixture) metrics() string { return f.diagnostics(http.MethodGet, "/metrics", "") }

// setVerbosity changes the verbosity of the running manager.
func (f *fixture) setVerbosity(v string) string {
	return f.diagnostics(http.MethodPut, "/debug/flags/v", v)
}

// diagnostics sends a request to the manager's diagnostics as a new ServiceAccount, so that the manager has to review the token.
func (f *fixture) diagnostics(method, path, body string) (answer string) {
	f.Helper()
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", GenerateName: "reader-"}}
	f.Create(reader)
	token := f.token(reader, "a reader's token")
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	f.Eventually(func(g Gomega) {
		request, err := http.NewRequestWithContext(f.Context(), method, "https://"+f.address+path, strings.NewReader(body))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := asker.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		read, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK), string(read))
		answer = string(read)
	}).Should(Succeed())
	return answer
}

// changePassword resets the password at the portal with portalctl, and then uses the new one.
func (f *fixture) changePassword(to string) {
	f.Helper()
	f.secrets.add("the password", to)
	f.portalctl("password", "", "password", "reset")
	token := f.Box.Portal.Mailbox(email)[0].ResetToken
	f.secrets.add("the reset token", token)
	f.portalctl("reset", token+"\n"+to+"\n", "password", "complete", "--password-stdin")
	f.password = to
	f.portalctl("doctor", "", "doctor")
}

func (f *fixture) portalctl(what, input string, arguments ...string) {
	f.Helper()
	ca := filepath.Join(f.TempDir(), "ca.crt")
	f.Expect(os.WriteFile(ca, f.Box.Portal.CAPEM(), 0o600)).To(Succeed())
	command := exec.CommandContext(f.Context(), f.Box.Binary("portalctl"), append(arguments, "-v")...)
	command.Env = append(os.Environ(), "PORTAL_URL="+f.Box.Portal.URL(), "PORTAL_EMAIL="+email, "PORTAL_CA_FILE="+ca,
		"PORTAL_PASSWORD="+f.password, "PORTAL_TOTP_SEED="+seed)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(out))
	f.noteWritten("portalctl "+what, string(out))
}

// noteKubeconfig adds the credentials in the cluster's kubeconfig to the secrets.
func (f *fixture) noteKubeconfig() {
	f.Helper()
	raw, err := f.Box.WorkloadKubeconfig(f.Context(), client.ObjectKeyFromObject(f.cluster))
	f.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(raw)
	f.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		f.secrets.add(clientKey, string(user.ClientKeyData))
		f.secrets.add("the kubeconfig's token", user.Token)
	}
}

// noteObjects records what users without the right to read Secrets can read in the namespace.
func (f *fixture) noteObjects() {
	f.Helper()
	for _, list := range []client.ObjectList{
		&corev1.EventList{}, &clusterv1.ClusterList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{},
	} {
		f.Expect(f.Box.Client.List(f.Context(), list)).To(Succeed())
		text, err := json.Marshal(list)
		f.Expect(err).NotTo(HaveOccurred())
		kinds, _, err := f.Box.Client.Scheme().ObjectKinds(list)
		f.Expect(err).NotTo(HaveOccurred())
		f.noteWritten(kinds[0].Kind, string(text))
	}
}

// noteLogs records the logs of all servers.
func (f *fixture) noteLogs() {
	f.Helper()
	f.Expect(filepath.WalkDir(f.Box.Dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := os.ReadFile(path)
		if name, _ := filepath.Rel(f.Box.Dir, path); len(text) > 0 {
			f.noteWritten(name, string(text))
		}
		return err
	})).To(Succeed())
}

func (f *fixture) noteWritten(what, text string) { f.written[what] = text }

// requestLog is a buffer that tests can read while the emulator writes to it.
type requestLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *requestLog) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *requestLog) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
