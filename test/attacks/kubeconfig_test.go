// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controls against kubeconfigs, which the tenant can write: they are in the tenant's namespace.
const (
	checked     = "a kubeconfig is checked when it is used (controllers/kubeconfig)"
	noRedirects = "redirects of API servers are not followed"
	serverHosts = "servers on unspecified, link-local and loopback addresses are refused"
)

func kubeconfigs() []row {
	tokenFile := func() string { return fmt.Sprintf("tokenFile: %q", managerFile) }
	return []row{
		{attack: "a kubeconfig made beforehand names a file of the manager's", heldBy: checked, attempt: func(t *tenant) string {
			return t.leaksFile(nil, tokenFile())
		}},
		{attack: "the same, marked as the tenant's own", heldBy: checked, attempt: func(t *tenant) string {
			return t.leaksFile(own, tokenFile())
		}},
		{attack: "the kubeconfig of a running cluster is replaced by one that names a file", heldBy: checked, attempt: func(t *tenant) string {
			return t.swapped(tokenFile())
		}},
		{attack: "a kubeconfig names a proxy", heldBy: checked, attempt: namesProxy},
		{attack: "core reads a file for a kubeconfig that the tenant wrote", heldBy: policy + "kubeconfig Secrets", attempt: coreReadsFile},
		{attack: "an API server redirects the manager to another host", heldBy: noRedirects, attempt: apiServerRedirects},
		{attack: "the portal's kubeconfig leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
			target := newSpy(t.T, loopback, nil)
			return t.leadsHome(target, t.create(t.own(unspecified(target)).objects()...))
		}},
		{attack: "a kubeconfig of the tenant's own leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
			target := newSpy(t.T, loopback, nil)
			return t.leadsHome(target, t.connects(own, unspecified(target)))
		}},
	}
}

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
	return t.create(secret, c.cluster) && forge(t, c.cluster, func(c *clusterv1.Cluster) {
		c.Status.Initialization.InfrastructureProvisioned, c.Status.Initialization.ControlPlaneInitialized = ptr.To(true), ptr.To(true)
	})
}

// leaksFile searches the requests to the tenant's server for the content of the manager's file. This is the attack that stole the manager's
// token.
func (t *tenant) leaksFile(annotations map[string]string, user string) string {
	t.Helper()
	server := newSpy(t.T, loopback, nil)
	if !t.connects(annotations, server.kubeconfig("", user)) {
		return ""
	}
	return t.leaked(server.received)
}

func (t *tenant) leaked(received func(func(*http.Request) bool) *http.Request) string {
	t.Helper()
	return t.seen(func() string {
		if received(carries(managerSecret)) != nil {
			return "the tenant's server received the content of a file of the manager's"
		}
		return ""
	})
}

// swapped changes the Secret while the manager is connected. Then the tenant's server refuses the credentials, which makes the manager
// connect again.
func (t *tenant) swapped(user string) string {
	t.Helper()
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
		return server.received(func(r *http.Request) bool { return r.URL.Path == "/api/v1/nodes" }) != nil
	})
	// While the Cluster is paused, the portal's kubeconfig does not replace the tenant's.
	if !change(t, c.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }) {
		return ""
	}
	t.await("the control plane is paused", func() bool { return conditions.IsTrue(fetched(t, c.controlPlane), clusterv1.PausedCondition) })
	secret := t.kubeconfigSecret(c)
	t.must(t.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	before := secret.DeepCopy()
	secret.Data["value"] = server.kubeconfig("", user)
	if !t.accepted(t.client.Patch(t.Context(), secret, client.MergeFrom(before))) {
		return ""
	}
	refuses.Store(true)
	return t.leaked(server.received)
}

// namesProxy names a server that can only be reached through the tenant's proxy.
func namesProxy(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	proxy := newPlainSpy(t.T, loopback, tunnel(server.Listener.Addr().String()))
	config := kubeconfig("https://localhost:1", server.ca, fmt.Sprintf(", proxy-url: %q", proxy.URL), "token: mine")
	if !t.connects(own, config) {
		return ""
	}
	return t.seen(func() string {
		if server.received(anything) != nil {
			return "the manager used the tenant's proxy"
		}
		return ""
	})
}

// coreReadsFile tries leaksFile on core, which reads the same Secret.
func coreReadsFile(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	if !t.connects(nil, server.kubeconfig("", fmt.Sprintf("tokenFile: %q", managerFile))) {
		return ""
	}
	return t.leaked(server.receivedByCore)
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
	return t.seen(func() string {
		if target.received(anything) != nil {
			return "the manager asked a host that the tenant's API server named"
		}
		return ""
	})
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
	return t.seen(func() string {
		if target.received(anything) != nil {
			return "the manager connected to its own host for the tenant"
		}
		return ""
	})
}
