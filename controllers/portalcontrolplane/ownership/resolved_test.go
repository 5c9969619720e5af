// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"io"
	"net/http"
	"strings"
	"testing"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestWhatShowsTheName checks in which answers of the portal a generated name proves that the object created the cluster.
func TestWhatShowsTheName(t *testing.T) {
	const name, id = "prod-bcdfg", "c-1"
	for title, test := range map[string]struct {
		kubeconfig, clusters, instances string
		generated, elsewhere, own       bool
	}{
		"nothing":                       {generated: true},
		"the kubeconfig":                {generated: true, kubeconfig: "current-context: admin@prod-bcdfg", own: true},
		"another name's kubeconfig":     {generated: true, kubeconfig: "current-context: admin@prod-zzzzz"},
		"the lookup":                    {generated: true, clusters: `{"id":"c-1","name":"prod-bcdfg"}`, own: true},
		"the lookup, with another id":   {generated: true, clusters: `{"id":"c-2","name":"prod-bcdfg"}`},
		"an instance":                   {generated: true, instances: `{"id":"i","name":"prod-bcdfg-w-1","kubernetesClusterId":"c-1"}`, own: true},
		"an instance of another id":     {generated: true, instances: `{"id":"i","name":"prod-bcdfg-w-1","kubernetesClusterId":"c-10"}`},
		"an instance without an id":     {generated: true, instances: `{"id":"i","name":"prod-bcdfg-w-1"}`},
		"an instance of another name":   {generated: true, instances: `{"id":"i","name":"prod-bcdfgh-w-1","kubernetesClusterId":"c-1"}`},
		"a name that a person chose":    {kubeconfig: "current-context: admin@prod-bcdfg"},
		"the answers of another portal": {generated: true, elsewhere: true, kubeconfig: "current-context: admin@prod-bcdfg"},
	} {
		t.Run(title, func(t *testing.T) {
			portal, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "secret", Transport: paths{
				"/login":               `{"token":"t","user":{"id":"u"}}`,
				"/kubernetes-clusters": map[bool]string{true: `{"kubernetesClusters":[` + test.clusters + `]}`}[test.clusters != ""],
				"/instances":           `{"instances":[` + test.instances + `]}`,
			}})
			if err != nil {
				t.Fatal(err)
			}
			op := &operation.Operation{Type: operation.Create, Target: name, Portal: "portal.example:443"}
			if test.elsewhere {
				op.Portal = "elsewhere.example:443"
			}
			p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, State: operation.State{Last: op}, Identity: identity.Identity{Portal: portal}}
			if test.generated {
				p.Record.Name = name
			}
			if own, err := (&Owners{}).shownAt(t.Context(), p, id, []byte(test.kubeconfig)); own != test.own || err != nil {
				t.Errorf("own: %t, %v", own, err)
			}
		})
	}
}

// paths is a portal that has one answer for each path.
type paths map[string]string

// RoundTrip implements http.RoundTripper.
func (p paths) RoundTrip(r *http.Request) (*http.Response, error) {
	body, status := p[r.URL.Path], http.StatusOK
	if body == "" {
		body, status = `{"error":{"code":"NO_SUCH_ENDPOINT","message":"m"}}`, http.StatusMethodNotAllowed
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}
