// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

func deleting(o metav1.Object) { o.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Unix(1, 0)))) }

// complete is a pool with two of two nodes.
func complete(change ...func(*scope)) *scope {
	s := &scope{
		pool:        &infrav1.PortalMachinePool{Spec: infrav1.PortalMachinePoolSpec{ProviderIDList: []string{"a", "b"}}},
		machinePool: &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: clusterv1.MachinePoolSpec{Replicas: ptr.To[int32](2)}},
		cluster:     &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "now"}},
		chosen:      "mine", nodes: 2,
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func unlinked(s *scope)    { s.machinePool, s.cluster, s.chosen = nil, nil, "" }
func clusterGone(s *scope) { s.cluster = nil }
func clusterGoes(s *scope) { deleting(s.cluster) }
func another(s *scope)     { s.chosen = "older" }
func one(s *scope)         { s.nodes = 1 }
func three(s *scope)       { s.nodes = 3 }
func taken(s *scope)       { s.pool.Spec.ProviderIDList = []string{"a", "b", "c"} }
func none(s *scope)        { s.pool.Spec.ProviderIDList, s.nodes = nil, 0 }
func poolGoes(s *scope)    { deleting(s.pool) }
func bothGo(s *scope)      { deleting(s.pool); deleting(s.machinePool) }
func restoredPool(s *scope) { // core has corrected the owner of the MachinePool
	s.machinePool.UID = "now"
	before := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "before"}}
	s.pool.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&before, clusterv1.GroupVersion.WithKind("MachinePool"))}
}
func restoredOwner(s *scope) {
	s.machinePool.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "before"}}
}

func TestUpdateStatus(t *testing.T) {
	tests := map[string]struct {
		scope       *scope
		ready       metav1.ConditionStatus
		reason      string
		says        string
		replicas    int32
		provisioned bool
	}{
		"a Machine has taken one of three over": {complete(taken), metav1.ConditionTrue, infrav1.ReadyReason, "", 3, true},
		"complete":                              {complete(), metav1.ConditionTrue, infrav1.ReadyReason, "", 2, true},
		"no MachinePool":                        {complete(unlinked), metav1.ConditionFalse, infrav1.WaitingForObjectReason, "No MachinePool owns", 2, false},
		"no Cluster":                            {complete(clusterGone), metav1.ConditionFalse, infrav1.WaitingForObjectReason, "does not exist", 2, false},
		"another pool":                          {complete(another), metav1.ConditionFalse, infrav1.OwnedByAnotherReason, "MachinePool older is the pool", 2, false},
		"too few":                               {complete(one), metav1.ConditionFalse, infrav1.ScalingUpReason, "1 of 2 nodes", 2, false},
		"too many":                              {complete(three), metav1.ConditionFalse, infrav1.ScalingDownReason, "3 nodes, but wants 2", 2, false},
		"deleted with its MachinePool":          {complete(bothGo), metav1.ConditionFalse, infrav1.DeletingReason, "2 nodes left", 2, false},
		"deleted without its MachinePool":       {complete(poolGoes), metav1.ConditionFalse, infrav1.WaitingForDependencyReason, "Delete the MachinePool", 2, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			pool := test.scope.pool
			pool.Generation = 7
			test.scope.updateStatus()
			if pool.Status.ObservedGeneration != 7 {
				t.Errorf("generation %d, want 7", pool.Status.ObservedGeneration)
			}
			ready := conditions.Get(pool, infrav1.ReadyCondition)
			if ready == nil || ready.Status != test.ready || ready.Reason != test.reason || !strings.Contains(ready.Message, test.says) {
				t.Errorf("Ready %+v, want %s %s that says %q", ready, test.ready, test.reason, test.says)
			}
			if test.ready == metav1.ConditionFalse && ready.Message == "" {
				t.Error("not ready, without a message")
			}
			if got := ptr.Deref(pool.Status.Replicas, -1); got != test.replicas {
				t.Errorf("%d replicas, want %d", got, test.replicas)
			}
			if got := ptr.Deref(pool.Status.Initialization.Provisioned, false); got != test.provisioned {
				t.Errorf("provisioned %v", got)
			}
			if got := ptr.Deref(pool.Status.Ready, false); got != test.provisioned { // the one of the two that core reads
				t.Errorf("ready %v", got)
			}
		})
	}
}

// TestStaysProvisioned checks that a pool which had its nodes once stays provisioned while it grows.
func TestStaysProvisioned(t *testing.T) {
	s := complete()
	s.updateStatus()
	s.nodes = 1
	s.updateStatus()
	if !ptr.Deref(s.pool.Status.Initialization.Provisioned, false) {
		t.Error("not provisioned any more")
	}
}

func TestMayGo(t *testing.T) {
	tests := map[string]struct {
		scope *scope
		want  bool
	}{
		"it has nodes":                        {complete(bothGo), false},
		"its nodes are gone":                  {complete(bothGo, none), true},
		"its MachinePool stays":               {complete(poolGoes), false},
		"its MachinePool stays, and no nodes": {complete(poolGoes, none), false},
		"its MachinePool is gone":             {complete(poolGoes, unlinked), true},
		"its Cluster is gone":                 {complete(bothGo, clusterGone), true},
		"its Cluster goes":                    {complete(bothGo, clusterGoes), true},
		"another pool has the nodes":          {complete(bothGo, another), true},
		"the garbage collector deleted it":    {complete(bothGo, restoredOwner), true},
		"core corrected its owner since":      {complete(bothGo, restoredPool), true},
	}
	for title, test := range tests {
		if got := test.scope.mayGo(); got != test.want {
			t.Errorf("%s: %v", title, got)
		}
	}
}
