// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestGoesWithoutControlPlane deletes a pool with nodes in its list. While the control plane exists, the pool waits for the
// nodes. When it is being deleted or gone, the list is never shortened, so the pool goes at once.
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
			machinePool.Spec.Template.Spec.InfrastructureRef.Kind = workers.PoolKind
			pool := &infrav1.PortalMachinePool{ObjectMeta: meta, Spec: infrav1.PortalMachinePoolSpec{ProviderIDList: []string{"a", "b"}}}
			pool.Finalizers = []string{infrav1.MachinePoolFinalizer}
			pool.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machinePool, clusterv1.GroupVersion.WithKind("MachinePool"))}
			deleting(machinePool)
			deleting(pool)

			scheme := schemes.Of(t, clusterv1.AddToScheme, infrav1.AddToScheme)
			objects := append(test.controlPlane, cluster, machinePool, pool)
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(pool).Build()}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
				t.Fatal(err)
			}
			if gone := apierrors.IsNotFound(r.Client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool)); gone != test.goes {
				t.Errorf("gone: %v", gone)
			}
		})
	}
}

// TestSecondPoolWarns checks that a second MachinePool of a Cluster, whose replicas do not count, says so in one Warning, however many passes
// find it.
func TestSecondPoolWarns(t *testing.T) {
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}}
	}
	objects := []client.Object{&clusterv1.Cluster{ObjectMeta: in("prod")}}
	for _, name := range []string{"first", "second"} {
		machinePool := &clusterv1.MachinePool{ObjectMeta: in(name)}
		machinePool.Spec.ClusterName, machinePool.Spec.Template.Spec.InfrastructureRef.Kind = "prod", workers.PoolKind
		pool := &infrav1.PortalMachinePool{ObjectMeta: in(name)}
		pool.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machinePool, clusterv1.GroupVersion.WithKind("MachinePool"))}
		objects = append(objects, machinePool, pool)
	}
	recorder := events.NewFakeRecorder(100)
	r := &Reconciler{Recorder: recorder, Client: fake.NewClientBuilder().WithScheme(schemes.Of(t, clusterv1.AddToScheme, infrav1.AddToScheme)).
		WithObjects(objects...).WithStatusSubresource(&infrav1.PortalMachinePool{}).Build()}
	for range 4 {
		for _, name := range []string{"first", "second"} {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+infrav1.OwnedByAnotherReason+" MachinePool first is the pool") {
		t.Error(event)
	}
}

// TestFromMember checks that a change of a Cluster's object wakes the pools of this Cluster only, and that an object without a
// Cluster wakes none.
func TestFromMember(t *testing.T) {
	in := func(namespace, name, cluster string) *infrav1.PortalMachinePool {
		return &infrav1.PortalMachinePool{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		}}
	}
	scheme := schemes.Of(t, infrav1.AddToScheme)
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithIndex(&infrav1.PortalMachinePool{}, clusterIndex, indexCluster).
		WithObjects(in("a", "pool", "prod"), in("a", "other", "test"), in("b", "pool", "prod"), &infrav1.PortalMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "alone"}}).Build()}
	for cluster, want := range map[string][]string{"prod": {"a/pool"}, "test": {"a/other"}, "gone": nil, "": nil} {
		var got []string
		for _, request := range r.fromMember(t.Context(), in("a", "member", cluster)) {
			got = append(got, request.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q wakes %v, want %v", cluster, got, want)
		}
	}
}
