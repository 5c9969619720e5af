// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// aPool has three replicas, a drain timeout of a minute, and lists Node n1.
func aPool() *pool {
	mp := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	mp.Spec.Replicas = ptr.To[int32](3)
	mp.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](60)
	infra := &infrav1.PortalMachinePool{ObjectMeta: metav1.ObjectMeta{Name: "infra"}}
	infra.Spec.WorkerParameters = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	infra.Spec.ProviderIDList = []string{"portal://c/n1"}
	return &pool{machinePool: mp, infra: infra}
}

func TestPoolView(t *testing.T) {
	gone := metav1.NewTime(time.Unix(1, 0))
	tests := map[string]struct {
		change func(*pool)
		want   *claims.Pool
	}{
		"a pool":                {func(*pool) {}, &claims.Pool{Replicas: 3, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
		"its object is missing": {func(p *pool) { p.infra = nil }, nil},
		"its autoscaler removes nodes": {func(p *pool) {
			p.machinePool.Annotations = map[string]string{
				infrav1.AutoscalerRemovesNodesAnnotation: "true", clusterv1.AutoscalerMinSizeAnnotation: "1", clusterv1.AutoscalerMaxSizeAnnotation: "5",
			}
		}, &claims.Pool{Replicas: 3, Shrinks: true, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
		"it has none": {func(p *pool) {
			p.machinePool.Annotations = map[string]string{infrav1.AutoscalerRemovesNodesAnnotation: "true"}
		}, &claims.Pool{Replicas: 3, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
		"core knows its nodes": {func(p *pool) {
			p.machinePool.Spec.ProviderIDList = []string{"portal://c/n0"}
			p.machinePool.Status.NodeRefs = []corev1.ObjectReference{{Name: "n0"}}
		}, &claims.Pool{Replicas: 3, List: []string{"portal://c/n1"}, Copied: []string{"portal://c/n0"}, Known: []string{"n0"}, Others: []string{"portal://c/control"}}},
		"its object is gone, and core is about to remove it": {func(p *pool) {
			p.machinePool.DeletionTimestamp, p.infra = &gone, nil
			p.machinePool.Status.NodeRefs = []corev1.ObjectReference{{Name: "n0"}}
		}, &claims.Pool{Replicas: 3, Deleting: true, Known: []string{"n0"}, Others: []string{"portal://c/control"}}},
		"it is being deleted": {func(p *pool) { p.machinePool.DeletionTimestamp = &gone },
			&claims.Pool{Replicas: 3, Deleting: true, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
		"the garbage collector deletes it: its nodes stay": {func(p *pool) {
			p.machinePool.DeletionTimestamp = &gone
			p.machinePool.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "before"}}
		}, &claims.Pool{Replicas: 3, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
		"and core has corrected the owner since": {func(p *pool) {
			p.machinePool.DeletionTimestamp, p.machinePool.UID = &gone, "now"
			before := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "before"}}
			p.infra.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&before, clusterv1.GroupVersion.WithKind("MachinePool"))}
		}, &claims.Pool{Replicas: 3, List: []string{"portal://c/n1"}, Others: []string{"portal://c/control"}}},
	}
	for title, test := range tests {
		cluster, p := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "now"}}, aPool()
		test.change(p)
		nodes := Nodes{others: []corev1.Node{{Spec: corev1.NodeSpec{ProviderID: "portal://c/control"}}}}
		if diff := cmp.Diff(test.want, poolView(cluster, p, nodes)); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}

func TestMismatchedPool(t *testing.T) {
	for title, test := range map[string]struct {
		workers *infrav1.WorkerParameters
		want    bool
	}{
		"not known":  {nil, false},
		"the same":   {&infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}, false},
		"other ones": {&infrav1.WorkerParameters{ServiceOfferingID: "large", SSHKeyPair: "ops"}, true},
	} {
		if got := aPool().mismatched(test.workers); got != test.want {
			t.Errorf("%s: %t, want %t", title, got, test.want)
		}
	}
}

// TestListsAtOnce checks that one write lists all nodes that a plan gives to the pool, and removes those that are gone. If a list was
// lost and is filled again, core deletes the known Nodes that are not in it yet.
func TestListsAtOnce(t *testing.T) {
	scheme := schemes.Of(t, infrav1.AddToScheme)
	p := aPool()
	writes := 0
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p.infra).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	in, w := &pass.Pass{Tools: pass.Tools{Writer: persist.Writer{Client: store}}}, claims.Write{Step: claims.WriteList, List: []string{"b", "c"}}
	if _, err := (Keeper{}).write(t.Context(), in, nil, Members{pool: p}, &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, p.infra.Spec.ProviderIDList); diff != "" || writes != 1 {
		t.Errorf("%d writes: %s", writes, diff)
	}
}

// TestPoolNodes checks that a node which a Machine has taken over does not count.
func TestPoolNodes(t *testing.T) {
	pool := &infrav1.PortalMachinePool{Spec: infrav1.PortalMachinePoolSpec{ProviderIDList: []string{"a", "b"}}}
	machines := []infrav1.PortalMachine{{}, {Spec: infrav1.PortalMachineSpec{ProviderID: "b"}}, {Spec: infrav1.PortalMachineSpec{ProviderID: "z"}}}
	if got := PoolNodes(pool, machines); got != 1 {
		t.Errorf("%d nodes, want 1", got)
	}
}

// TestChosenPool checks that the pool of this provider has the nodes which names nodes, else the oldest, by name if two are as old.
func TestChosenPool(t *testing.T) {
	made := func(name, kind string, second int64) clusterv1.MachinePool {
		mp := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
		mp.Spec.Template.Spec.InfrastructureRef.Kind = kind
		return mp
	}
	chosen := ChosenPool([]clusterv1.MachinePool{made("young", PoolKind, 3), made("b", PoolKind, 2), made("a", PoolKind, 2), made("other", "OtherMachinePool", 1)})
	if chosen == nil || chosen.Name != "a" {
		t.Errorf("%v", chosen)
	}
	moved := made("young", PoolKind, 3) // after the other one, although it had the nodes first
	moved.Spec.ProviderIDList = []string{"portal://c/n1"}
	if chosen := ChosenPool([]clusterv1.MachinePool{moved, made("a", PoolKind, 2)}); chosen == nil || chosen.Name != "young" {
		t.Errorf("%v has the nodes of another pool after a move", chosen)
	}
	if chosen := ChosenPool([]clusterv1.MachinePool{made("other", "OtherMachinePool", 1)}); chosen != nil {
		t.Errorf("%s", chosen.Name)
	}
}
