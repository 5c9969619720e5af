// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestDeletionPolicy checks that a cluster which was taken over stays even if the policy that was written into spec is removed later.
func TestDeletionPolicy(t *testing.T) {
	const keep, remove = infrav1.DeletionPolicyRetain, infrav1.DeletionPolicyDelete
	for title, test := range map[string]struct {
		takenOver  bool
		spec, want infrav1.DeletionPolicy
	}{
		"created":            {false, "", remove},
		"created, Retain":    {false, keep, keep},
		"taken over":         {true, "", keep},
		"taken over, Delete": {true, remove, remove},
	} {
		p := &Pass{ControlPlane: &infrav1.PortalControlPlane{}}
		p.Record.TakenOver, p.ControlPlane.Spec.DeletionPolicy = test.takenOver, test.spec
		if got := p.DeletionPolicy(); got != test.want {
			t.Errorf("%s: %s, want %s", title, got, test.want)
		}
	}
}

// TestBeingDeleted checks when nothing is created, scaled or upgraded any more.
func TestBeingDeleted(t *testing.T) {
	stays, goes := metav1.ObjectMeta{}, metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}
	for title, test := range map[string]struct {
		controlPlane metav1.ObjectMeta
		cluster      *clusterv1.Cluster
		want         bool
	}{
		"none":              {stays, &clusterv1.Cluster{ObjectMeta: stays}, false},
		"the control plane": {goes, &clusterv1.Cluster{ObjectMeta: stays}, true},
		"the Cluster":       {stays, &clusterv1.Cluster{ObjectMeta: goes}, true},
		"no Cluster exists": {stays, nil, true},
	} {
		p := &Pass{ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: test.controlPlane}, Cluster: test.cluster}
		if got := p.BeingDeleted(); got != test.want {
			t.Errorf("%s: %t", title, got)
		}
	}
}
