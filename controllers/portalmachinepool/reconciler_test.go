// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestGoesWithoutControlPlane deletes a pool with nodes in its list: while there is a control plane the pool waits for the nodes, and when
// that is being deleted or gone nobody shortens the list, so the pool goes at once.
func TestGoesWithoutControlPlane(t *testing.T) {
	controlPlane := func(change func(metav1.Object)) []client.Object {
		cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod", Finalizers: []string{infrav1.ControlPlaneFinalizer}}}
		change(cp)
		return []client.Object{cp}
	}
	tests := map[string]struct {
		controlPlane []client.Object
		goes         bool
	}{
		"present":       {controlPlane(func(metav1.Object) {}), false},
		"being deleted": {controlPlane(deleting), true},
		"gone":          {nil, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "default", Name: "prod", Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}}
			cluster := &clusterv1.Cluster{ObjectMeta: meta}
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalControlPlane", Name: "prod"}
			machinePool := &clusterv1.MachinePool{ObjectMeta: meta}
			machinePool.UID, machinePool.Finalizers = "uid", []string{clusterv1.MachinePoolFinalizer}
			machinePool.Spec.ClusterName, machinePool.Spec.Replicas = "prod", ptr.To[int32](2)
			machinePool.Spec.Template.Spec.InfrastructureRef.Kind = Kind
			pool := &infrav1.PortalMachinePool{ObjectMeta: meta, Spec: infrav1.PortalMachinePoolSpec{ProviderIDList: []string{"a", "b"}}}
			pool.Finalizers = []string{infrav1.MachinePoolFinalizer}
			pool.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machinePool, clusterv1.GroupVersion.WithKind("MachinePool"))}
			deleting(machinePool)
			deleting(pool)

			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			objects := append(test.controlPlane, cluster, machinePool, pool)
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(pool).Build()}
			for range 2 { // the first pass writes the Paused condition
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
					t.Fatal(err)
				}
			}
			if gone := apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool)); gone != test.goes {
				t.Errorf("gone: %v", gone)
			}
		})
	}
}
