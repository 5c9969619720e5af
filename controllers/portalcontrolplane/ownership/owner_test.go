// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestPrecedence checks to which of two objects a portal cluster belongs. Both give the same answer.
func TestPrecedence(t *testing.T) {
	type object struct {
		owns, deleting bool
		age            time.Duration
		uid            string
	}
	for title, test := range map[string]struct{ first, second object }{
		"the owner":              {object{owns: true}, object{age: time.Hour}},
		"the owner, which goes":  {object{owns: true, deleting: true}, object{age: time.Hour}},
		"the older owner":        {object{owns: true, age: time.Hour}, object{owns: true}},
		"the older":              {object{age: time.Hour}, object{}},
		"the one that stays":     {object{}, object{deleting: true, age: time.Hour}},
		"the UID, of one second": {object{uid: "a"}, object{uid: "b"}},
		"owners of one second":   {object{owns: true, uid: "a"}, object{owns: true, uid: "b"}},
	} {
		t.Run(title, func(t *testing.T) {
			epoch := time.Now()
			build := func(o object, name string) *infrav1.PortalControlPlane {
				cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(o.uid + name), CreationTimestamp: metav1.NewTime(epoch.Add(-o.age))}}
				if cp.Spec.ClusterID = "c"; o.owns {
					operation.State{Record: operation.Record{UID: cp.UID, ClusterID: "c"}}.Put(cp)
				}
				if o.deleting {
					cp.DeletionTimestamp = &metav1.Time{Time: epoch}
				}
				return cp
			}
			first, second := build(test.first, "1"), build(test.second, "2")
			if !precedes(first, second) || precedes(second, first) {
				t.Error("it belongs to the other one")
			}
		})
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
		"the user's, as the portal's is": {users, operation.Record{KubeconfigDigest: "d", Endpoint: users}, false},
	} {
		p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, State: operation.State{Record: test.record}}
		p.ControlPlane.Spec.ControlPlaneEndpoint = test.inSpec
		if p.EndpointChosen() != test.chosen {
			t.Errorf("%s: chosen is %t", title, !test.chosen)
		}
		forgetCluster(p)
		if kept := p.ControlPlane.Spec.ControlPlaneEndpoint.IsValid(); kept != test.chosen {
			t.Errorf("%s: kept for another portal cluster: %t", title, kept)
		}
	}
}

// TestUnreadableAnnotations: an object whose record cannot be read counts as owner, and is found by its creation. One whose operation
// cannot be read owns what its record says.
func TestUnreadableAnnotations(t *testing.T) {
	state := operation.State{Record: operation.Record{UID: "me", ClusterID: "c"}, Last: &operation.Operation{ID: "o", Type: operation.Create, JobID: "job-1"}}
	for title, test := range map[string]struct {
		annotation, clusterID string
		owns                  bool
		keys                  int
	}{
		"the record":                         {infrav1.RecordAnnotation, "c", true, 2},
		"the record, while it creates":       {infrav1.RecordAnnotation, "", true, 1},
		"the operation":                      {infrav1.OperationAnnotation, "c", true, 1},
		"the operation, of another cluster":  {infrav1.OperationAnnotation, "d", false, 1},
		"the operation, while it may create": {infrav1.OperationAnnotation, "", false, 0},
	} {
		cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{UID: "me"}}
		cp.Spec.ClusterID = test.clusterID
		state.Put(cp)
		cp.Annotations[test.annotation] = "{"
		if owns, keys := ownsCluster(cp), IndexPortalCluster(cp); owns != test.owns || len(keys) != test.keys {
			t.Errorf("%s: owns %v, found by %q", title, owns, keys)
		}
	}
}
