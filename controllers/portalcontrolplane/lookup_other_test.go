// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestLookupOfAnotherCluster checks that the version of one portal cluster never counts for another one: not when an object names another
// portal cluster, not when another object has the name, and not when a new connection leads to another API server.
func TestLookupOfAnotherCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"gitVersion":%q}`, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	for name, change := range map[string]func(*infrav1.PortalControlPlane, *rest.Config){
		"portal cluster": func(cp *infrav1.PortalControlPlane, _ *rest.Config) { cp.Spec.ClusterID = "second" },
		"object":         func(cp *infrav1.PortalControlPlane, _ *rest.Config) { cp.UID = "second" },
		"connection":     func(_ *infrav1.PortalControlPlane, config *rest.Config) { config.BearerToken = "second" },
	} {
		t.Run(name, func(t *testing.T) {
			cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "prod", UID: "first"}}
			cp.Spec.ClusterID = "first"
			config := &rest.Config{Host: server.URL, BearerToken: "first"}
			l := &versionLookups{}
			l.source()
			look := func() versionLookup {
				return l.answer(t.Context(), cp, config, (&scope{controlPlane: cp}).versionKey())
			}
			look()
			<-l.woken
			if found := look(); !found.answered() {
				t.Fatalf("no answer: %q", found.version)
			}
			change(cp, config)
			if found := look(); found.answered() {
				t.Fatalf("the answer of the first one counts: %q", found.version)
			}
			<-l.woken
			if found := look(); found.version != "Bearer "+config.BearerToken {
				t.Errorf("version %q", found.version)
			}
		})
	}
}
