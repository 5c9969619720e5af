// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// tokenFile names the manager's file in the user of a kubeconfig.
func tokenFile() string { return fmt.Sprintf("tokenFile: %q", managerFile) }

// replaces has a running cluster of the tenant use another kubeconfig, as one of the tenant's own. The policy refuses some of them from a tenant,
// and the manager has to refuse them from everyone. So an administrator writes it.
func (t *tenant) replaces(config []byte) bool {
	t.Helper()
	server := newSpy(t.T, loopback, apiServer)
	c := t.own(server.kubeconfig("", "token: mine"))
	if !t.create(c.objects()...) {
		t.Fatal("a tenant cannot make a cluster")
	}
	t.await("the manager is connected", func() bool {
		return server.received(true, func(r *http.Request) bool { return r.URL.Path == "/api/v1/nodes" })
	})
	secret := fetched(t, t.kubeconfigSecret(c))
	before := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, infrav1.UserManagedAnnotation, "true")
	secret.Data["value"] = config
	t.must(box.Client.Patch(t.Context(), secret, client.MergeFrom(before)))
	return true
}

// leaked searches the requests of the provider, or else of core, for the content of the manager's file.
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

// leaksFile is the attack that stole the manager's token.
func leaksFile(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	t.replaces(server.kubeconfig("", tokenFile()))
	return t.leaked(server, true)
}

// coreReadsFile has core connect with a kubeconfig that the tenant wrote. No kubeconfig of the portal replaces it, because there is no portal
// cluster: the Cluster is paused, and the tenant writes into its status that its control plane runs.
func coreReadsFile(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	c := t.own(nil)
	c.cluster.Spec.Paused = ptr.To(true)
	secret := t.kubeconfigSecret(c)
	secret.Data = map[string][]byte{"value": server.kubeconfig("", tokenFile())}
	if !t.create(secret, c.cluster) {
		return ""
	}
	before := c.cluster.DeepCopy()
	c.cluster.Status.Initialization.InfrastructureProvisioned, c.cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true), ptr.To(true)
	t.must(t.client.Status().Patch(t.Context(), c.cluster, client.MergeFrom(before)))
	return t.leaked(server, false)
}

// leadsHome has the manager use a kubeconfig with an address of its own host that does not look like loopback.
func (t *tenant) leadsHome(use func(config []byte) bool) string {
	t.Helper()
	target := newSpy(t.T, loopback, nil)
	if !use(kubeconfig(fmt.Sprintf("https://0.0.0.0:%d", target.port()), target.ca, "", "token: mine")) {
		return ""
	}
	return t.reached(target, "the manager connected to its own host for the tenant")
}
