// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// What the tenant's namespace holds about an API server is the tenant's to write.
const (
	checked     = "a kubeconfig is checked when it is used (controllers/kubeconfig)"
	noRedirects = "redirects of API servers are not followed"
	serverHosts = "servers on unspecified, link-local and loopback addresses are refused"
)

func kubeconfigs() []row {
	return []row{
		{attack: "a kubeconfig made beforehand names a file of the manager's", heldBy: checked, attempt: madeBefore},
		{attack: "the kubeconfig of a running cluster is replaced by one that names a file", heldBy: checked, attempt: func(t *tenant) string {
			return t.swapped("", fmt.Sprintf("tokenFile: %q", managerFile), leaksFile)
		}},
		{attack: "the same, marked as the tenant's own", heldBy: checked, attempt: func(t *tenant) string {
			return t.swappedAs(map[string]string{userManaged: "true"}, "", fmt.Sprintf("tokenFile: %q", managerFile), leaksFile)
		}},
		{attack: "a kubeconfig runs a command in the manager's Pod", heldBy: checked, attempt: runsCommand},
		{attack: "a kubeconfig names a proxy", heldBy: checked, attempt: namesProxy},
		{attack: "core reads a file for a kubeconfig that the tenant wrote", heldBy: policy + "kubeconfig Secrets", attempt: coreReadsFile},
		{attack: "an API server redirects the manager to another host", heldBy: noRedirects, attempt: apiServerRedirects},
		{attack: "the portal's kubeconfig leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
			target := newSpy(t.T, loopback, nil)
			return t.leadsHome(target, t.create(t.own(unspecified(target)).objects()...))
		}},
		{attack: "a kubeconfig of the tenant's own leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
			target := newSpy(t.T, loopback, nil)
			c := t.running(newSpy(t.T, loopback, nil).kubeconfig("", "token: mine"))
			return t.leadsHome(target, t.replace(c, map[string]string{userManaged: "true"}, unspecified(target)))
		}},
	}
}

// userManaged says that a kubeconfig is the user's own.
const userManaged = "infrastructure.cluster.x-k8s.io/user-managed"

const leaksFile = "the tenant's server received the content of a file of the manager's"

// madeBefore is the attack that stole the manager's token: with an id and an endpoint in spec, the portal's kubeconfig was not asked for.
func madeBefore(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	c := t.own(nil)
	id, _ := t.portalCluster("any")
	c.controlPlane.Spec.ClusterID = id
	c.controlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: loopback, Port: int32(server.port())}
	made := t.kubeconfigSecret(c)
	made.Data = map[string][]byte{"value": server.kubeconfig("", fmt.Sprintf("tokenFile: %q", managerFile))}
	if !t.create(made) || !t.create(c.objects()...) {
		return ""
	}
	return t.seen(func() string {
		if server.received(carries(managerSecret)) != nil {
			return leaksFile
		}
		return ""
	})
}

// running makes a cluster of the tenant's own and waits until the manager uses its API server.
func (t *tenant) running(config []byte) *cluster {
	t.Helper()
	c := t.own(config)
	if !t.create(c.objects()...) {
		t.Fatal("a tenant cannot make a cluster")
	}
	t.await("the tenant's cluster", func() bool { return t.stored(c) != nil })
	return c
}

// replace writes another kubeconfig into the Secret.
func (t *tenant) replace(c *cluster, annotations map[string]string, config []byte) bool {
	t.Helper()
	secret := t.kubeconfigSecret(c)
	if !t.accepted(t.client.Delete(t.Context(), secret)) {
		return false
	}
	secret = t.kubeconfigSecret(c)
	secret.Data = map[string][]byte{"value": config}
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, key, value)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1beta1.GroupVersion.Group+"/fetched-at", "2036-01-01T00:00:00Z")
	return t.create(secret)
}

func (t *tenant) swapped(cluster, user, harm string) string {
	t.Helper()
	return t.swappedAs(nil, cluster, user, harm)
}

// swappedAs replaces the kubeconfig of a running cluster, and looks for the manager's file at the tenant's server.
func (t *tenant) swappedAs(annotations map[string]string, cluster, user, harm string) string {
	t.Helper()
	server := newSpy(t.T, loopback, nil)
	c := t.running(server.kubeconfig("", "token: mine"))
	if !t.replace(c, annotations, server.kubeconfig(cluster, user)) {
		return ""
	}
	return t.seen(func() string {
		if server.received(carries(managerSecret)) != nil {
			return harm
		}
		return ""
	})
}

func runsCommand(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	c := t.running(server.kubeconfig("", "token: mine"))
	trace := filepath.Join(t.TempDir(), "trace")
	command := fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [%q]}", trace)
	if !t.replace(c, nil, server.kubeconfig("", command)) {
		return ""
	}
	return t.seen(func() string {
		if _, err := os.Stat(trace); err == nil {
			return "a command of the tenant's ran with the rights of a manager"
		}
		return ""
	})
}

func namesProxy(t *tenant) string {
	server, proxy := newSpy(t.T, loopback, nil), newPlainSpy(t.T, loopback, nil)
	c := t.running(server.kubeconfig("", "token: mine"))
	if !t.replace(c, nil, server.kubeconfig(fmt.Sprintf(", proxy-url: %q", proxy.URL), "token: mine")) {
		return ""
	}
	return t.seen(func() string {
		if proxy.received(func(r *http.Request) bool { return r.Method == http.MethodConnect }) != nil {
			return "the manager used the tenant's proxy"
		}
		return ""
	})
}

// coreReadsFile writes the Cluster's status, too: core connects to nothing before its infrastructure is there.
func coreReadsFile(t *tenant) string {
	server := newSpy(t.T, loopback, nil)
	c := t.own(nil)
	made := t.kubeconfigSecret(c)
	made.Data = map[string][]byte{"value": server.kubeconfig("", fmt.Sprintf("tokenFile: %q", managerFile))}
	if !t.create(made) || !t.create(c.objects()...) {
		return ""
	}
	return t.seen(func() string {
		if server.receivedFromAnyone(carries(managerSecret)) != nil {
			return "the tenant's server received the content of a file of core's"
		}
		return ""
	})
}

// apiServerRedirects leads the manager to a server that speaks plain HTTP, as a metadata service does.
func apiServerRedirects(t *tenant) string {
	target := newPlainSpy(t.T, loopback, nil)
	server := newSpy(t.T, loopback, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/latest/meta-data/", http.StatusFound)
	})
	t.running(server.kubeconfig("", "token: mine"))
	return t.seen(func() string {
		if target.received(anything) != nil {
			return "the manager asked a host that the tenant's API server named"
		}
		return ""
	})
}

// unspecified leads to this machine by an address that is not loopback by its look.
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
