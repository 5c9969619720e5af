// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestProtectedInDeletedNamespace: the API server refuses to delete a protected Cluster with its namespace, but deletes its
// MachineDeployment. The workers stay. They are removed if a person deletes only the MachineDeployment.
func TestProtectedInDeletedNamespace(t *testing.T) {
	for title, leaves := range map[string]bool{"the namespace": true, "the MachineDeployment": false} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{})
				meta := metav1.ObjectMeta{Name: prod.Namespace, Finalizers: []string{"a/b"}}
				namespace := &corev1.Namespace{ObjectMeta: meta}
				if err := f.store.Create(t.Context(), namespace); err != nil {
					t.Fatal(err)
				}
				deleted := []client.Object{f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = meta.Finalizers })}
				if leaves {
					deleted = append(deleted, namespace)
				}
				for _, obj := range deleted {
					if err := f.store.Delete(t.Context(), obj); err != nil {
						t.Fatal(err)
					}
				}
				f.live(5 * time.Minute)
				if asked := len(f.answers("scale")) > 0; asked == leaves {
					t.Errorf("the portal was asked for fewer workers: %v", asked)
				}
				s := f.pass()
				if o := s.outcomes[infrav1.WorkersReadyCondition]; leaves && (o.Kind != outcome.Stalled || o.Reason != infrav1.DeletingReason) {
					t.Errorf("%+v", o)
				}
				for _, n := range s.nodes.Workers {
					if _, drains := n.Annotations[infrav1.DrainStartedAnnotation]; drains || n.Spec.Unschedulable {
						t.Errorf("Node %s is drained", n.Name)
					}
				}
			})
		})
	}
}
