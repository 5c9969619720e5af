// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestForgetDeletedCluster checks that a manager, which may run for months, remembers nothing of a portal cluster whose object is gone,
// whichever way it went.
func TestForgetDeletedCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.editDeployment(func(md *clusterv1.MachineDeployment) {
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMinSizeAnnotation, "1")
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMaxSizeAnnotation, "5")
		})
		lost := f.worker()
		if err := f.nodes.Delete(t.Context(), &lost); err != nil {
			t.Fatal(err)
		}
		s := f.pass()
		for _, field := range []string{"drift", "pins"} {
			if reflect.ValueOf(f.manager.memory(s).workers).FieldByName(field).IsZero() {
				t.Fatalf("%s is not remembered of a cluster that is not being deleted: %+v", field, f.manager.memory(s))
			}
		}
		if err := f.store.Delete(t.Context(), f.controlPlane()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.manager.Reconcile(t.Context(), ctrl.Request{NamespacedName: prod}); err != nil {
			t.Fatal(err)
		}
		if left := f.manager.memory(s); !reflect.DeepEqual(left, &memory{}) {
			t.Errorf("this is remembered: %+v", left)
		}
		if !slices.Equal(f.workloads.dropped, []client.ObjectKey{prod}) {
			t.Errorf("connections that end: %v", f.workloads.dropped)
		}
	})
}
