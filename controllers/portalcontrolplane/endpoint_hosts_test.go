// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// handsOut is a portal that returns the same kubeconfig to every caller.
type handsOut string

// RoundTrip implements http.RoundTripper.
func (config handsOut) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"token":"t","user":{"id":"u"}}`
	if r.Method == http.MethodGet {
		raw, err := json.Marshal(map[string]string{"kubeconfig": string(config)})
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestPortalCannotNameAnyServer checks that a kubeconfig whose server is on loopback, or is a metadata service, is not stored: a
// tenant's own portal would lead the manager there.
func TestPortalCannotNameAnyServer(t *testing.T) {
	for server, refused := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://169.254.169.254": true, "https://[fd00:ec2::254]": true, "https://localhost": true,
		"https://api.portal.example": false, "https://10.0.0.7:6443": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, 1, emulator.Durations{})
			f.manager.Access.Hosts = &cloud.Hosts{}
			portal := newCloud(t, "https://portal.example", handsOut(kubeconfigs.For("server: '"+server+"'", "token: "+kubeconfigs.Canary)))
			s := newScopeFor(before)
			s.ControlPlane = f.controlPlane()
			s.Tools = f.manager.tools(s)
			s.Cluster.Namespace, s.Cluster.Name = prod.Namespace, prod.Name
			s.Identity = identity.Identity{Portal: portal, BaseURL: "https://portal.example"}
			s.Infrastructure, s.outcomes[infrav1.ProvisionedCondition] = outcome.Outcome{}, outcome.Outcome{}
			o := f.manager.reconcileKubeconfig(t.Context(), s)
			if refused && (o.Reason != infrav1.KubeconfigInvalidReason || !strings.Contains(o.Message, "its server names a host")) {
				t.Errorf("%s: %+v", server, o)
			}
			stored := client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}
			if err := f.store.Get(t.Context(), stored, &corev1.Secret{}); client.IgnoreNotFound(err) != nil || (err != nil) != refused {
				t.Errorf("%s: the kubeconfig Secret: %v", server, err)
			}
		})
	}
}
