// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

var prod = client.ObjectKey{Namespace: "team", Name: "prod"}

// store is a management cluster with a Cluster of ours and its kubeconfig Secret. The provider stored own last.
func store(t *testing.T, content, own string, annotations map[string]string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalControlPlane", Name: "control"}
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "control"}}
	record := &operation.Record{}
	if own != "" {
		record.KubeconfigDigest = Digest([]byte(own))
	}
	operation.PutRecord(controlPlane, record)
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte(content), "more": []byte(canary)}}
	secret.Name, secret.Annotations = prod.Name+"-kubeconfig", annotations
	// What a tenant can write proves nothing.
	secret.Labels = map[string]string{clusterv1.ClusterNameLabel: prod.Name}
	secret.Type = clusterv1.ClusterSecretType
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, controlPlane, secret).Build()
}

// theirs says that the Secret is the user's.
var theirs = map[string]string{infrav1.UserManagedAnnotation: "true"}

// TestReader reads what the provider stored and what a user marked, in its minimal form, and nothing else.
func TestReader(t *testing.T) {
	full, minimal := file(server+", extensions: []", token), ""
	if out, err := Minimal([]byte(full)); err != nil {
		t.Fatal(err)
	} else {
		minimal = string(out)
	}
	bad := file(server, "tokenFile: /etc/hostname")
	tests := map[string]struct {
		content, own string
		annotations  map[string]string
		refused      string
	}{
		"what the provider stored":                {content: minimal, own: minimal},
		"what it stored, with more in it":         {content: full, own: full},
		"what nobody knows":                       {content: full, refused: errNotOwn.Error()},
		"another one":                             {content: full, own: minimal, refused: errNotOwn.Error()},
		"another one, marked as not user-managed": {content: full, own: minimal, annotations: map[string]string{infrav1.UserManagedAnnotation: "false"}, refused: errNotOwn.Error()},
		"a user's":                                {content: full, own: minimal, annotations: theirs},
		"a user's, with a token file":             {content: bad, annotations: theirs, refused: "files"},
		"the provider's, likewise":                {content: bad, own: bad, refused: "files"},
		"nothing":                                 {refused: errNotOwn.Error()},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			c := store(t, test.content, test.own, test.annotations)
			secret := &corev1.Secret{}
			err := Reader{Client: c, Live: c}.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "prod-kubeconfig"}, secret)
			if test.refused == "" {
				if err != nil || len(secret.Data) != 1 || string(secret.Data["value"]) != minimal {
					t.Errorf("%v, %s", err, secret.Data)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.refused) || strings.Contains(err.Error(), canary) || len(secret.Data) > 0 {
				t.Errorf("%v, %s", err, secret.Data)
			}
			if test.refused == errNotOwn.Error() && !errors.Is(err, errNotOwn) {
				t.Errorf("%v is not errNotOwn", err)
			}
		})
	}
}

// TestReaderOfANewKubeconfig checks that a kubeconfig which was stored a moment ago is used, although the cache shows the record before. One
// that the cache knows is not asked for past the cache.
func TestReaderOfANewKubeconfig(t *testing.T) {
	minimal, err := Minimal([]byte(file(server, "token: "+canary)))
	if err != nil {
		t.Fatal(err)
	}
	key, known := client.ObjectKey{Namespace: prod.Namespace, Name: "prod-kubeconfig"}, store(t, string(minimal), string(minimal), nil)
	before, none := store(t, string(minimal), "another one", nil), fake.NewClientBuilder().WithScheme(known.Scheme()).Build()
	for title, r := range map[string]Reader{"the cache is behind": {before, known}, "the cache knows it": {known, none}} {
		secret := &corev1.Secret{}
		if err := r.Get(t.Context(), key, secret); err != nil || string(secret.Data["value"]) != string(minimal) {
			t.Errorf("%s: %v", title, err)
		}
	}
	if err := (Reader{before, before}).Get(t.Context(), key, &corev1.Secret{}); !errors.Is(err, errNotOwn) {
		t.Errorf("neither knows it: %v", err)
	}
}

// TestReaderReadsNothingElse: the ClusterCache needs kubeconfigs only.
func TestReaderReadsNothingElse(t *testing.T) {
	c := store(t, "", "", nil)
	r := Reader{Client: c, Live: c}
	if err := r.Get(t.Context(), prod, &clusterv1.Cluster{}); err == nil {
		t.Error("it reads a Cluster")
	}
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "prod"}, &corev1.Secret{}); err == nil {
		t.Error("it reads another Secret")
	}
	if err := r.List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("it lists Secrets")
	}
}

// connect does what the ClusterCache and core do with a kubeconfig Secret (createRESTConfig in Cluster API's package clustercache), and asks
// the API server for its version.
func connect(t *testing.T, secrets client.Reader) error {
	t.Helper()
	content, err := capikubeconfig.FromSecret(t.Context(), secrets, prod)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return err
	}
	config.Timeout = 10 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	_, err = d.ServerVersion()
	return err
}

// TestAttacks makes kubeconfig Secrets as a tenant does. Each attack is also tried on a reader that checks nothing, where it has to succeed.
// Marking the Secret as user-managed must not help.
func TestAttacks(t *testing.T) {
	const stolen = "token-of-the-manager"
	tests := map[string]func(t *testing.T, authority string, tenant, proxy *listener) string{
		"a token of a local file arrives at the tenant's server": func(t *testing.T, authority string, tenant, _ *listener) string {
			t.Helper()
			return file("server: '"+tenant.URL+"', certificate-authority-data: "+authority, "tokenFile: "+readable(t, stolen))
		},
		"the connection goes through the tenant's proxy": func(_ *testing.T, authority string, tenant, proxy *listener) string {
			return file("server: '"+tenant.URL+"', certificate-authority-data: "+authority+", proxy-url: '"+proxy.URL+"'", token)
		},
	}
	for title, attack := range tests {
		t.Run(title, func(t *testing.T) {
			tenant, proxy := newListener(t, httptest.NewTLSServer), newListener(t, httptest.NewServer)
			authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tenant.Certificate().Raw}))
			content := attack(t, authority, tenant, proxy)
			succeeds := func() bool {
				return strings.Contains(fmt.Sprint(tenant.got.Load()), stolen) || proxy.hits.Load() > 0
			}
			for _, annotations := range []map[string]string{nil, theirs} {
				c := store(t, content, "", annotations)
				if err := connect(t, Reader{Client: c, Live: c}); err == nil || succeeds() || tenant.hits.Load() > 0 {
					t.Errorf("with the annotations %v: %v", annotations, err)
				}
			}
			if _ = connect(t, store(t, content, "", nil)); !succeeds() {
				t.Error("without the check the attack fails too, so it shows nothing")
			}
		})
	}
}

// listener keeps the last Authorization header.
type listener struct {
	*httptest.Server
	got  atomic.Value
	hits atomic.Int32
}

func newListener(t *testing.T, start func(http.Handler) *httptest.Server) *listener {
	t.Helper()
	l := &listener{}
	l.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.hits.Add(1)
		l.got.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(l.Close)
	return l
}
