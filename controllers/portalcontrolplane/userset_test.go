// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// TestEndpointChosen: the provider follows the kubeconfig with the endpoint that it set, and leaves alone the one that the user set.
func TestEndpointChosen(t *testing.T) {
	none, users := clusterv1.APIEndpoint{}, clusterv1.APIEndpoint{Host: "api.example", Port: 443}
	portals := clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}
	for title, test := range map[string]struct {
		inSpec clusterv1.APIEndpoint
		record operation.Record
		chosen bool
	}{
		"none":                           {none, operation.Record{}, false},
		"none, although one was noted":   {none, operation.Record{KubeconfigDigest: "d", Endpoint: portals}, false},
		"the kubeconfig's":               {portals, operation.Record{KubeconfigDigest: "d", Endpoint: portals}, false},
		"the user's, before any":         {users, operation.Record{}, true},
		"the user's":                     {users, operation.Record{KubeconfigDigest: "d", Endpoint: portals}, true},
		"the user's, as the portal's is": {users, operation.Record{KubeconfigDigest: "d", Endpoint: users}, false},
	} {
		s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, State: operation.State{Record: test.record}}}
		s.ControlPlane.Spec.ControlPlaneEndpoint = test.inSpec
		if s.EndpointChosen() != test.chosen {
			t.Errorf("%s: chosen is %t", title, !test.chosen)
		}
		s.forgetCluster()
		if kept := s.ControlPlane.Spec.ControlPlaneEndpoint.IsValid(); kept != test.chosen {
			t.Errorf("%s: kept for another portal cluster: %t", title, kept)
		}
	}
}
