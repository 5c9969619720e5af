// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// trap is a tenant's API server.
type trap struct {
	server *httptest.Server
	mu     sync.Mutex
	caught []string // the provider's Authorization headers, not core's: core follows every kubeconfig
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
	return r
}

// kubeconfig returns a kubeconfig that leads to the trap.
func (r *trap) kubeconfig() string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}))
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: '%s', certificate-authority-data: %s}}], users: [{name: c, user: {token: a}}]}`, r.server.URL, ca)
}

func (r *trap) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.caught)
}

// TestKubeconfigSecret changes the kubeconfig Secret of a running cluster as users do: they damage it, replace it, manage it themselves, and
// delete it.
func TestKubeconfigSecret(t *testing.T) {
	suite.Long(t)
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
	write := func(content string) {
		suite.Change(s.Fixture, stored, func(o *corev1.Secret) { o.Data["value"] = []byte(content) })
	}
	write("damaged")
	s.Eventually(content).Should(Equal(portals), "the provider replaces a damaged kubeconfig")
	write(r.kubeconfig())
	s.Eventually(content).Should(Equal(portals), "the provider replaces a kubeconfig of the user without the annotation")
	s.Expect(r.got()).To(BeEmpty())

	suite.Change(s.Fixture, stored, func(o *corev1.Secret) { o.Annotations[infrav1.UserManagedAnnotation] = "true" })
	s.scale(3)
	s.settled(3)
	write(strings.Replace(portals, "current-context", "# mine\ncurrent-context", 1))
	s.upgrade("v1.36.3") // the provider fetches its own kubeconfig after an upgrade
	s.scale(2)
	s.settled(2)
	s.Expect(content()).To(ContainSubstring("# mine"), "the provider does not replace a kubeconfig that the user manages")
	s.Expect(s.Box.Client.Delete(s.Context(), stored)).To(Succeed())
	s.Eventually(content).Should(Equal(portals))
	s.settled(2)
	s.end()
}
