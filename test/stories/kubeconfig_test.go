// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// trap is a tenant's API server, and a proxy that leads to it for every host name.
type trap struct {
	server, proxy *httptest.Server
	mu            sync.Mutex
	caught        []string // the provider's Authorization headers, not core's: core follows every kubeconfig
}

func setTrap(t *testing.T) *trap {
	t.Helper()
	r := &trap{}
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if strings.Contains(request.UserAgent(), controllers.UserAgent) {
			r.caught = append(r.caught, "Authorization: "+request.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(r.server.Close)
	r.proxy = httptest.NewServer(http.HandlerFunc(r.forward))
	t.Cleanup(r.proxy.Close)
	return r
}

// forward answers CONNECT with a connection to the trap's server.
func (r *trap) forward(w http.ResponseWriter, request *http.Request) {
	to, err := (&net.Dialer{}).DialContext(request.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		return
	}
	w.WriteHeader(http.StatusOK)
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
}

// kubeconfig returns a kubeconfig for the server, with additional fields of the cluster and the given fields of the user.
func (r *trap) kubeconfig(server, cluster, user string) []byte {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: '%s', certificate-authority-data: %s%s}}], users: [{name: c, user: {%s}}]}`, server, ca, cluster, user)
}

func (r *trap) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.caught)
}

// TestTenantsKubeconfig creates the kubeconfig Secret before the provider does, as a tenant may. The tenant also sets all fields that could
// make the provider connect without the portal's kubeconfig: the id of a portal cluster, the endpoint, and the status of the Cluster.
func TestTenantsKubeconfig(t *testing.T) {
	t.Parallel()
	attacks := map[string]func(t *testing.T, r *trap) []byte{
		"a file of the manager as a token": func(t *testing.T, r *trap) []byte {
			t.Helper()
			file := filepath.Join(t.TempDir(), "token")
			NewWithT(t).Expect(os.WriteFile(file, []byte("stolen"), 0o600)).To(Succeed())
			return r.kubeconfig(r.server.URL, "", "tokenFile: "+file)
		},
		"a proxy": func(_ *testing.T, r *trap) []byte {
			return r.kubeconfig("https://example.com:6443", ", proxy-url: '"+r.proxy.URL+"'", "token: a")
		},
		"a server": func(_ *testing.T, r *trap) []byte { return r.kubeconfig(r.server.URL, "", "token: a") },
	}
	for title, attack := range attacks {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s, r := newStory(t), setTrap(t)
			s.Create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: name}},
				Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": attack(t, r)},
			})
			s.controlPlane.Spec.ClusterID = "another-tenants-" + s.Namespace
			s.controlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}
			s.apply()
			s.Eventually(func() error {
				if err := s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.cluster), s.cluster); err != nil {
					return err
				}
				before := s.cluster.DeepCopy()
				s.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
				s.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
				return s.Box.Client.Status().Patch(s.Context(), s.cluster, client.MergeFrom(before))
			}).Should(Succeed())
			s.Consistently(r.got, 10*time.Second).Should(BeEmpty())
			s.Eventually(s.Condition(s.controlPlane, infrav1.KubeconfigReadyCondition)).Should(And(
				HavePrefix("False "+infrav1.SecretTakenReason), ContainSubstring(infrav1.UserManagedAnnotation)))
			s.Expect(r.got()).To(BeEmpty())
		})
	}
}

// TestKubeconfigSecret changes the kubeconfig Secret of a running cluster as users do: they damage it, replace it, manage it themselves, and
// delete it.
func TestKubeconfigSecret(t *testing.T) {
	t.Parallel()
	s, r := newStory(t), setTrap(t)
	s.apply()
	s.settled(2)
	stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-kubeconfig"}}
	content := func() string {
		ctx := context.WithoutCancel(s.Context())
		if err := s.Box.Client.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
			return err.Error()
		}
		return string(stored.Data["value"])
	}
	portals := content()
	theirs := string(r.kubeconfig(r.server.URL, "", "token: a"))
	write := func(content string) {
		suite.Change(s.Fixture, stored, func(o *corev1.Secret) { o.Data["value"] = []byte(content) })
	}
	write("damaged")
	s.Eventually(content).Should(Equal(portals), "the provider replaces a damaged kubeconfig")
	write(theirs)
	s.Eventually(content).Should(Equal(portals), "the provider replaces a kubeconfig of the user without the annotation")
	s.Expect(r.got()).To(BeEmpty())

	suite.Change(s.Fixture, stored, func(o *corev1.Secret) { o.Annotations[infrav1.UserManagedAnnotation] = "true" })
	s.scale(3)
	s.settled(3)
	write(strings.Replace(portals, "current-context", "# mine\ncurrent-context", 1))
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	s.upgraded("v1.36.3") // the provider fetches its own kubeconfig after an upgrade
	s.scale(2)
	s.settled(2)
	s.Expect(content()).To(ContainSubstring("# mine"), "the provider does not replace a kubeconfig that the user manages")
	s.Expect(s.Box.Client.Delete(s.Context(), stored)).To(Succeed())
	s.Eventually(content).Should(Equal(portals))
	s.settled(2)
	s.end()
}
