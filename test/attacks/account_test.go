// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// notAllowed uses an account that only another namespace may use. Once the administrator allows the tenant's namespace, the account works.
func notAllowed(t *tenant) string {
	kind := schema.GroupVersionKind{Group: infrav1.GroupVersion.Group, Version: infrav1.GroupVersion.Version, Kind: "PortalClusterIdentity"}
	secret := t.secret("capportal-system", victim)
	secret.Name = t.namespace
	t.must(box.Client.Create(t.Context(), secret))
	shared := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"secretRef": map[string]any{"name": secret.Name}, "allowedNamespaces": map[string]any{"list": []any{"default"}},
	}}}
	shared.SetGroupVersionKind(kind)
	shared.SetName(t.namespace)
	if err := box.Client.Create(t.Context(), shared); meta.IsNoMatchError(err) {
		t.Fatalf("the API server does not serve the control yet: %v", err)
	} else {
		t.must(err)
	}
	c := t.own(nil)
	text, err := json.Marshal(c.portalCluster)
	t.must(err)
	named := &unstructured.Unstructured{}
	t.must(json.Unmarshal(text, &named.Object))
	t.must(unstructured.SetNestedStringMap(named.Object, map[string]string{"kind": kind.Kind, "name": shared.GetName()}, "spec", "identityRef"))
	named.SetGroupVersionKind(infrav1.GroupVersion.WithKind("PortalCluster"))
	if !t.create(c.cluster, named, c.controlPlane) {
		return ""
	}
	uses := func() bool { return len(t.portalClusters()) > 0 || t.logins(victim) > 0 }
	if harm := t.seen("the manager used an account for a namespace that may not use it", uses); harm != "" {
		return harm
	}
	before := shared.DeepCopy()
	t.must(unstructured.SetNestedStringSlice(shared.Object, []string{"default", t.namespace}, "spec", "allowedNamespaces", "list"))
	t.must(box.Client.Patch(t.Context(), shared, client.MergeFrom(before)))
	t.await("the namespace that is allowed uses the account", uses)
	return ""
}

// logins counts the logins of a user of the account.
func (t *tenant) logins(who string) (n int) {
	for _, e := range box.Portal.RequestLog() {
		if e.Route == "/login" && e.User == user(who, t.number).ID && e.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// newcomer creates a Cluster without a control plane for another tenant, in another namespace.
func (t *tenant) newcomer() *cluster {
	t.Helper()
	namespace := fmt.Sprintf("victim-%d", t.number)
	theirs := t.inNamespace(namespace)
	t.must(theirs.Create(t.Context(), t.secret(namespace, victim)))
	c := t.newCluster(namespace, name)
	t.must(theirs.Create(t.Context(), c.cluster))
	t.must(theirs.Create(t.Context(), c.portalCluster))
	return c
}

// accepts reports whether the portal has accepted the identity of the Cluster.
func (t *tenant) accepts(c *cluster) bool {
	return conditions.IsTrue(fetched(t, c.portalCluster), infrav1.IdentityReadyCondition)
}

// identity creates an identity Secret and a PortalCluster that uses it. The tenant's owner references assign all of them to one Cluster.
func (t *tenant) identity(name, baseURL string, ca []byte) *infrav1.PortalCluster {
	t.Helper()
	home := t.newCluster(t.namespace, "home").cluster
	if err := t.client.Create(t.Context(), home); apierrors.IsAlreadyExists(err) {
		home = fetched(t, home)
	} else {
		t.must(err)
	}
	secret := t.secret(t.namespace, attacker)
	secret.Name = name
	secret.StringData[infrav1.IdentityBaseURL], secret.StringData[infrav1.IdentityCABundle] = baseURL, string(ca)
	secret.StringData[infrav1.IdentityEmail] = name + "@portal.example"
	t.must(t.client.Create(t.Context(), secret))
	c := t.newCluster(t.namespace, name).portalCluster
	c.Spec.IdentityRef.Name = name
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(home, clusterv1.GroupVersion.WithKind("Cluster"))}
	t.must(t.client.Create(t.Context(), c))
	return c
}

// tarPits points identities to servers that accept connections and never answer. While workers of the manager wait for some of them, another
// tenant creates a cluster. In a plain queue, its identity would wait until workers have taken all identities of the attacker.
func tarPits(t *tenant) string {
	const pits, workers = 60, 10 // the default of --portalcluster-concurrency
	pit, err := net.Listen("tcp", loopback+":0")
	t.must(err)
	defer pit.Close()
	var held atomic.Int32
	go func() {
		for {
			connection, err := pit.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			held.Add(1)
		}
	}()
	for i := range pits {
		t.identity(fmt.Sprintf("pit-%d", i), "https://"+pit.Addr().String(), box.Portal.CAPEM())
	}
	t.await("half of the workers wait", func() bool { return held.Load() >= workers/2 })
	theirs := t.newcomer()
	for ; !t.accepts(theirs); time.Sleep(5 * poll) {
		all, tried := &infrav1.PortalClusterList{}, 0
		t.must(box.Client.List(t.Context(), all, client.InNamespace(t.namespace)))
		for i := range all.Items {
			if conditions.Has(&all.Items[i], infrav1.IdentityReadyCondition) {
				tried++
			}
		}
		if tried > pits-workers {
			return fmt.Sprintf("the manager gave up on %d of %d identities before it looked at that of another tenant", tried, pits)
		}
	}
	return ""
}

// namesLoopback points identities to servers on loopback, one for each spelling of the address.
func namesLoopback(t *tenant) string {
	spellings := map[string]string{ // address to listen on, by spelling
		"localhost": loopback, "localhost.": loopback, "LOCALHOST": loopback, "0.0.0.0": loopback, "[::]": "::", "[::1]": "::1", "127.0.0.2": "127.0.0.2",
		"127.1": loopback, "2130706433": loopback, "0x7f000001": loopback, "[::ffff:127.0.0.2]": "127.0.0.2", "[::ffff:7f00:2]": "127.0.0.2",
		"[64:ff9b::7f00:1]": loopback, "127.0.0.1.": loopback,
	}
	spies := map[string]*spy{}
	var all []*infrav1.PortalCluster
	for spelling, address := range spellings {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Logf("%s is not tried: %v", spelling, err)
			continue
		}
		_ = listener.Close()
		s := newSpy(t.T, address, nil)
		spies[spelling] = s
		all = append(all, t.identity(fmt.Sprintf("host-%d", len(spies)), fmt.Sprintf("https://%s:%d", spelling, s.port()), s.ca))
	}
	t.reported(all...)
	var reached []string
	for spelling, s := range spies {
		if s.connected() {
			reached = append(reached, spelling)
		}
	}
	slices.Sort(reached)
	if len(reached) > 0 {
		return "the manager connected to " + strings.Join(reached, ", ")
	}
	return ""
}

// reported waits until the manager has reported on each of the identities, which it does when it has tried them.
func (t *tenant) reported(all ...*infrav1.PortalCluster) {
	t.Helper()
	t.await("the manager has tried all identities", func() bool {
		return !slices.ContainsFunc(all, func(c *infrav1.PortalCluster) bool {
			return !conditions.Has(fetched(t, c), infrav1.IdentityReadyCondition)
		})
	})
}

// conditionsReveal compares the conditions for a closed port, a server without TLS, a server that never answers, a server with an untrusted
// certificate, and one that answers.
func conditionsReveal(t *tenant) string {
	closed, err := net.Listen("tcp", loopback+":0")
	t.must(err)
	t.must(closed.Close())
	plain, strange, answers := newPlainSpy(t.T, loopback, nil), newSpy(t.T, loopback, nil), newSpy(t.T, loopback, nil)
	probes := map[string]*infrav1.PortalCluster{
		"a closed port":         t.identity("to-closed", "https://"+closed.Addr().String(), answers.ca),
		"no TLS":                t.identity("to-plain", "https"+strings.TrimPrefix(plain.URL, "http"), answers.ca),
		"a strange certificate": t.identity("to-strange", strange.URL, answers.ca),
		"an HTTP status":        t.identity("to-answers", answers.URL, answers.ca),
	}
	said := map[string]string{}
	t.await("the manager has asked them all", func() bool {
		for what, probe := range probes {
			c := conditions.Get(fetched(t, probe), infrav1.IdentityReadyCondition)
			if c == nil || c.Status != metav1.ConditionFalse {
				return false
			}
			base, err := url.Parse(string(t.secretOf(probe).Data[infrav1.IdentityBaseURL]))
			t.must(err)
			message := strings.NewReplacer(base.Host, "<host>", base.Port(), "<port>", probe.Name, "<name>").Replace(c.Message)
			said[c.Reason+": "+message] = what
		}
		return true
	})
	if len(said) == 1 {
		return ""
	}
	return fmt.Sprintf("conditions distinguish what listens on a port: %q", said)
}

func (t *tenant) secretOf(c *infrav1.PortalCluster) *corev1.Secret {
	return fetched(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Spec.IdentityRef.Name}})
}

func portalRedirects(t *tenant) string {
	target := newPlainSpy(t.T, loopback, nil)
	portal := newSpy(t.T, loopback, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/login", http.StatusFound)
	})
	t.reported(t.identity("redirects", portal.URL, portal.ca))
	if target.connected() {
		return "the manager asked a host that the portal named"
	}
	return ""
}

// portalRepeats checks whether users who may not read the Secret can read its content elsewhere.
func portalRepeats(t *tenant) string {
	portal := newSpy(t.T, loopback, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		text, _ := json.Marshal("I do not know " + string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, `{"error":{"code":"INVALID_PARAMETER","message":%s,"field":%s}}`, text, text)
	})
	c := t.identity("repeats", portal.URL, portal.ca)
	t.reported(c)
	text, err := json.Marshal(fetched(t, c).Status)
	t.must(err)
	if strings.Contains(string(text), user(attacker, t.number).Password) {
		return "the password is in a condition"
	}
	return ""
}
