// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	email     = "canary@portal.example"
	seed      = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	provider  = "capportal-system"
	clientKey = "the kubeconfig's key"

	// patience is how long a step may take. A one-time code is valid once, so a login may wait half a minute for the next code.
	patience = 3 * time.Minute
)

// world is a sandbox with known secrets, and everything that was written in it.
type world struct {
	*testing.T
	*WithT
	*sandbox.Sandbox
	cluster    client.ObjectKey
	password   string
	requestLog *requestLog
	secrets    secrets
	written    map[string]string
	address    string // of the running manager's diagnostics
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		T: t, WithT: NewWithT(t), cluster: client.ObjectKey{Namespace: "default", Name: "canary"},
		password: canary, requestLog: &requestLog{}, secrets: secrets{}, written: map[string]string{},
	}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	w.secrets.add("the old password", canary)
	w.secrets.add("the TOTP seed", seed)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	w.Sandbox, err = sandbox.Start(ctx, sandbox.Options{
		Dir: t.TempDir(), Out: os.Stderr, WithoutManager: true,
		Portal: emulator.Options{
			Seed: 1, RequestLogTo: w.requestLog, Users: []emulator.User{{Email: email, Password: canary, TOTPSeed: seed}},
			Durations: emulator.Durations{Pending: -1, Create: time.Second, Scale: time.Second, Delete: time.Second},
		},
	})
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { w.Expect(w.Close()).To(Succeed()) })
	w.Expect(w.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:kube-public"}},
	})).To(Succeed())
	return w
}

// startManager runs the manager that make build has built, with a token of its ServiceAccount as in a Pod, and returns when the manager is
// ready.
func (w *world) startManager(name string, flags ...string) *kubeserver.Process {
	w.Helper()
	kubeconfig := filepath.Join(w.TempDir(), "manager.kubeconfig")
	w.writeKubeconfig(kubeconfig)
	health := w.freeAddress()
	w.address = w.freeAddress()
	manager, err := kubeserver.Start(w.Context(), kubeserver.Spec{
		Name: name, Path: w.Binary("manager"), Log: filepath.Join(w.Dir, name+".log"), Grace: 100 * time.Second,
		Args: append([]string{"--health-addr=" + health, "--diagnostics-address=" + w.address, "--allow-unverified-core", "--portal-host=127.0.0.1"}, flags...),
		Env:  []string{"KUBECONFIG=" + kubeconfig},
		Ready: func(context.Context) error {
			response, err := http.Get("http://" + health + "/readyz")
			if err == nil {
				err = response.Body.Close()
			}
			return err
		},
	})
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(manager.Stop)
	return manager
}

func (w *world) writeKubeconfig(path string) {
	w.Helper()
	accounts := &corev1.ServiceAccountList{}
	w.Expect(w.Client.List(w.Context(), accounts, client.InNamespace(provider),
		client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
	w.Expect(accounts.Items).To(HaveLen(1))
	config, err := clientcmd.LoadFromFile(w.Kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	token := w.token(&accounts.Items[0], "the manager's token")
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	w.Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
}

func (w *world) token(account *corev1.ServiceAccount, what string) string {
	w.Helper()
	request := &authenticationv1.TokenRequest{}
	w.Expect(w.Client.SubResource("token").Create(w.Context(), account, request)).To(Succeed())
	w.secrets.add(what, request.Status.Token[strings.LastIndex(request.Status.Token, ".")+1:]) // tokens differ only in their signatures
	return request.Status.Token
}

func (w *world) freeAddress() string {
	w.Helper()
	port, err := kubeserver.FreePort("127.0.0.1")
	w.Expect(err).NotTo(HaveOccurred())
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// metrics returns the metrics as Prometheus would read them.
func (w *world) metrics() string { return w.diagnostics(http.MethodGet, "/metrics", "") }

// setVerbosity changes the verbosity of the running manager.
func (w *world) setVerbosity(v string) string {
	return w.diagnostics(http.MethodPut, "/debug/flags/v", v)
}

// diagnostics sends a request to the manager's diagnostics as a new ServiceAccount, so that the manager has to review the token.
func (w *world) diagnostics(method, path, body string) (answer string) {
	w.Helper()
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", GenerateName: "reader-"}}
	w.Expect(w.Client.Create(w.Context(), reader)).To(Succeed())
	token := w.token(reader, "a reader's token")
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // the manager signs its certificate itself
	w.Eventually(func(g Gomega) {
		request, err := http.NewRequestWithContext(w.Context(), method, "https://"+w.address+path, strings.NewReader(body))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := asker.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close() //nolint:errcheck // nothing was written to it
		read, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK), string(read))
		answer = string(read)
	}).Should(Succeed())
	return answer
}

// changePassword resets the password at the portal with portalctl, and then uses the new one.
func (w *world) changePassword(to string) {
	w.Helper()
	w.secrets.add("the password", to)
	w.portalctl("password", "", "password", "reset")
	token := w.Portal.Mailbox(email)[0].ResetToken
	w.secrets.add("the reset token", token)
	w.portalctl("reset", token+"\n"+to+"\n", "password", "complete", "--password-stdin")
	w.password = to
	w.portalctl("doctor", "", "doctor")
}

func (w *world) portalctl(what, input string, arguments ...string) {
	w.Helper()
	ca := filepath.Join(w.TempDir(), "ca.crt")
	w.Expect(os.WriteFile(ca, w.Portal.CAPEM(), 0o600)).To(Succeed())
	command := exec.CommandContext(w.Context(), w.Binary("portalctl"), append(arguments, "-v")...)
	command.Env = append(os.Environ(), "PORTAL_URL="+w.Portal.URL(), "PORTAL_EMAIL="+email, "PORTAL_CA_FILE="+ca,
		"PORTAL_PASSWORD="+w.password, "PORTAL_TOTP_SEED="+seed)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	w.Expect(err).NotTo(HaveOccurred(), string(out))
	w.noteWritten("portalctl "+what, string(out))
}

// noteKubeconfig adds the credentials in the cluster's kubeconfig to the secrets.
func (w *world) noteKubeconfig() {
	w.Helper()
	raw, err := w.WorkloadKubeconfig(w.Context(), w.cluster)
	w.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(raw)
	w.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		w.secrets.add(clientKey, string(user.ClientKeyData))
		w.secrets.add("the kubeconfig's token", user.Token)
	}
}

// noteObjects records what users without the right to read Secrets can read in the namespace.
func (w *world) noteObjects() {
	w.Helper()
	for _, list := range []client.ObjectList{
		&corev1.EventList{}, &clusterv1.ClusterList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{},
	} {
		w.Expect(w.Client.List(w.Context(), list)).To(Succeed())
		text, err := json.Marshal(list)
		w.Expect(err).NotTo(HaveOccurred())
		kinds, _, err := w.Client.Scheme().ObjectKinds(list)
		w.Expect(err).NotTo(HaveOccurred())
		w.noteWritten(kinds[0].Kind, string(text))
	}
}

// noteLogs records the logs of all servers.
func (w *world) noteLogs() {
	w.Helper()
	w.Expect(filepath.WalkDir(w.Dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // a file of this test
		if name, _ := filepath.Rel(w.Dir, path); len(text) > 0 {
			w.noteWritten(name, string(text))
		}
		return err
	})).To(Succeed())
}

func (w *world) noteWritten(what, text string) { w.written[what] = text }

func (s secrets) kinds() map[string]bool {
	kinds := map[string]bool{}
	for what := range maps.Values(s) {
		kinds[what] = true
	}
	return kinds
}

// change updates an object and retries until the API server accepts the update.
func (w *world) change(key client.ObjectKey, object client.Object, change func()) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Client.Get(w.Context(), key, object); err != nil {
			return err
		}
		change()
		return w.Client.Update(w.Context(), object)
	}).Should(Succeed())
}

// condition returns the status and reason of a condition of the object that has the Cluster's name.
func (w *world) condition(object client.Object, kind string) string {
	if err := w.Client.Get(w.Context(), w.cluster, object); err != nil {
		return err.Error()
	}
	getter, _ := object.(conditions.Getter)
	all := getter.GetConditions()
	at := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return "none"
	}
	return string(all[at].Status) + " " + all[at].Reason
}

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
