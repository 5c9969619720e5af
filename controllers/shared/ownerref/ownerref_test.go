// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func to(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}
}

// TestStale: only a reference to a Cluster can be stale, and only one that names the present Cluster can be corrected.
func TestStale(t *testing.T) {
	const v1beta2, v1beta1 = "cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"
	present := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "new"}}
	tests := map[string]struct {
		references   []metav1.OwnerReference
		stale, stays bool
	}{
		"none":                      {},
		"present":                   {references: []metav1.OwnerReference{to(v1beta2, "Cluster", "prod", "new")}},
		"restored":                  {references: []metav1.OwnerReference{to(v1beta2, "Cluster", "prod", "old")}, stale: true},
		"restored, earlier version": {references: []metav1.OwnerReference{to(v1beta1, "Cluster", "prod", "old")}, stale: true},
		"another Cluster":           {references: []metav1.OwnerReference{to(v1beta2, "Cluster", "other", "new")}, stale: true, stays: true},
		"another kind":              {references: []metav1.OwnerReference{to("v1", "Secret", "prod", "old")}},
		"another group":             {references: []metav1.OwnerReference{to("example.com/v1", "Cluster", "prod", "old")}},
		"one of two":                {references: []metav1.OwnerReference{to("v1", "Secret", "shim", "x"), to(v1beta2, "Cluster", "prod", "old")}, stale: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &metav1.ObjectMeta{OwnerReferences: test.references}
			if Stale(obj, present) != test.stale {
				t.Errorf("stale is %v", !test.stale)
			}
			Correct(Cluster, obj, present)
			if Stale(obj, present) != test.stays {
				t.Errorf("after the correction stale is %v", !test.stays)
			}
			for _, reference := range obj.OwnerReferences {
				if !*reference.Controller {
					t.Errorf("the correction changed more than the UID: %+v", reference)
				}
			}
		})
	}
}
