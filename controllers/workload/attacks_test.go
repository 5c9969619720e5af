// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
)

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

// careless connects as a client does that uses every field of a kubeconfig.
func careless(content []byte) error {
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

// TestAttacks connects with kubeconfigs as a tenant makes them. Each attack is also tried with a client that checks nothing, where it has
// to succeed.
func TestAttacks(t *testing.T) {
	const stolen = "token-of-the-manager"
	file := filepath.Join(t.TempDir(), "token") // one that exists: reading it must not be what fails
	if err := os.WriteFile(file, []byte(stolen), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, attack := range map[string]func(proxy string) (cluster, user string){
		"a token of a local file arrives at the tenant's server": func(string) (string, string) { return "", "tokenFile: " + file },
		"the connection goes through the tenant's proxy":         func(proxy string) (string, string) { return ", proxy-url: '" + proxy + "'", "token: t" },
	} {
		t.Run(title, func(t *testing.T) {
			tenant, proxy := newListener(t, httptest.NewTLSServer), newListener(t, httptest.NewServer)
			authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tenant.Certificate().Raw}))
			cluster, user := attack(proxy.URL)
			content := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
				clusters: [{name: c, cluster: {server: '%s', certificate-authority-data: %s%s}}], users: [{name: u, user: {%s}}]}`,
				tenant.URL, authority, cluster, user)
			succeeds := func() bool {
				return strings.Contains(fmt.Sprint(tenant.got.Load()), stolen) || proxy.hits.Load() > 0
			}
			c := newConnections(t, "127.0.0.1").Ensure(keyOf("a"), content)
			time.Sleep(100 * time.Millisecond)
			if c.Access() != Unusable || succeeds() || tenant.hits.Load() > 0 {
				t.Errorf("%q, %d requests", c.Access(), tenant.hits.Load())
			}
			if _ = careless(content); !succeeds() {
				t.Error("without the check the attack fails too, so it shows nothing")
			}
		})
	}
}
