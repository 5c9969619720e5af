// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestNameChosenDuringCreation: the user chooses a name while a creation with a generated name runs, which then fails. The name
// stays: GitOps would set it again, and once the portal cluster exists it cannot be changed.
func TestNameChosenDuringCreation(t *testing.T) {
	for inSpec, want := range map[string]struct{ spec, record string }{
		"a-1":  {"a-2", "a-2"},
		"main": {"main", ""},
	} {
		s := &scope{controlPlane: &infrav1.PortalControlPlane{}, record: &operation.Record{Name: "a-1", Size: operation.SizeUnknown}}
		s.controlPlane.Spec.ClusterName = inSpec
		q := &creation{s: s, request: cloud.CreateClusterRequest{Name: "a-1"}, generated: true, nextName: "a-2"}
		for range 2 { // it is made again after a conflict
			q.UpdateObject(&operation.Operation{Type: operation.Create, Target: "a-1", Result: operation.Failed}, "", nil)
		}
		record, err := operation.LoadRecord(s.controlPlane)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.controlPlane.Spec.ClusterName; got != want.spec || record.Name != want.record {
			t.Errorf("spec had %s: now spec has %q, the record %q", inSpec, got, record.Name)
		}
	}
}

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
		"set by an earlier version":      {portals, operation.Record{KubeconfigDigest: "d"}, false},
		"the user's, as the portal's is": {users, operation.Record{KubeconfigDigest: "d", Endpoint: users}, false},
	} {
		s := &scope{controlPlane: &infrav1.PortalControlPlane{}, record: &test.record}
		s.controlPlane.Spec.ControlPlaneEndpoint = test.inSpec
		if s.endpointChosen() != test.chosen {
			t.Errorf("%s: chosen is %t", title, !test.chosen)
		}
		s.forgetCluster()
		if kept := s.controlPlane.Spec.ControlPlaneEndpoint.IsValid(); kept != test.chosen {
			t.Errorf("%s: kept for another portal cluster: %t", title, kept)
		}
	}
}
