// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
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
	requestLog string // file
	secrets    secrets
	written    map[string]string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{password: canary, requestLog: filepath.Join(t.TempDir(), "requests"), secrets: secrets{}, written: map[string]string{}}
	f.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary"}}
	f.secrets.add("the old password", canary)
	f.secrets.add("the TOTP seed", seed)
	requests, err := os.Create(f.requestLog)
	if err != nil {
		t.Fatal(err)
	}
	box := suite.StartFor(t, sandbox.Options{
		Dir: t.TempDir(), WithoutManager: true,
		Portal: emulator.Options{
			RequestLogTo: requests, Users: []emulator.User{{Email: email, Password: canary, TOTPSeed: seed}},
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

// startManager runs the manager with a token of its ServiceAccount, as in a Pod, and with diagnostics that review tokens.
func (f *fixture) startManager(flags ...string) {
	f.Helper()
	account := &corev1.ServiceAccount{}
	f.Expect(f.Box.Client.Get(f.Context(), client.ObjectKey{Namespace: provider, Name: "capportal-manager"}, account)).To(Succeed())
	config, err := clientcmd.LoadFromFile(f.Box.Kubeconfig)
	f.Expect(err).NotTo(HaveOccurred())
	token := f.token(account, "the manager's token")
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	kubeconfig := filepath.Join(f.TempDir(), "manager.kubeconfig")
	f.Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	f.Expect(f.Box.StartManager(f.Context(), append(flags, "--kubeconfig="+kubeconfig, "--insecure-diagnostics=false")...)).To(Succeed())
}

// stopManager ends the manager, and records its log under another name.
func (f *fixture) stopManager(name string) {
	f.Helper()
	f.Box.StopManager()
	log := filepath.Join(f.Box.Dir, "manager.log")
	f.Expect(os.Rename(log, filepath.Join(f.Box.Dir, name))).To(Succeed())
}

func (f *fixture) token(account *corev1.ServiceAccount, what string) string {
	f.Helper()
	request := &authenticationv1.TokenRequest{}
	f.Expect(f.Box.Client.SubResource("token").Create(f.Context(), account, request)).To(Succeed())
	f.secrets.add(what, request.Status.Token[strings.LastIndex(request.Status.Token, ".")+1:]) // tokens differ only in their signatures
	return request.Status.Token
}

// diagnostics sends a request to the manager's diagnostics as a new ServiceAccount, so that the manager has to review the token.
func (f *fixture) diagnostics(method, path, body string) (answer string) {
	f.Helper()
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", GenerateName: "reader-"}}
	f.Create(reader)
	asker, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host:          "https" + strings.TrimPrefix(strings.TrimSuffix(f.Box.MetricsURL, "/metrics"), "http"),
		BearerToken:   f.token(reader, "a reader's token"),
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs}, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Eventually(func() error {
		read, err := asker.Verb(method).AbsPath(path).Body([]byte(body)).DoRaw(f.Context())
		answer = string(read)
		return err
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
	f.written["portalctl "+what] = string(out)
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
		f.written[fmt.Sprintf("%T", list)] = string(text)
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
			f.written[name] = string(text)
		}
		return err
	})).To(Succeed())
}
