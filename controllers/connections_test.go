// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capportal/cluster-api-provider-portal/controllers/fair"
)

// TestReconnect: a Cluster whose connection is to be renewed is kept out once and looked at again, and others are not.
func TestReconnect(t *testing.T) {
	c := &connections{}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	key := client.ObjectKeyFromObject(cluster)
	cluster.Spec.ControlPlaneRef.Kind = "PortalControlPlane"
	c.reconnect(key) // before the ClusterCache runs
	queue := c.keep(fair.Workers(2).NewQueue)("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if c.admit(cluster) {
		t.Error("admitted without a kubeconfig")
	}
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	if !c.admit(cluster) {
		t.Error("kept out")
	}
	other := cluster.DeepCopy()
	other.Name = "c"
	c.reconnect(key)
	c.reconnect(key)
	next := func() {
		t.Helper()
		request, _ := queue.Get()
		if request.NamespacedName != key {
			t.Errorf("woken: %s", request)
		}
	}
	next()
	if !c.admit(other) {
		t.Error("another Cluster is kept out")
	}
	if c.admit(cluster) {
		t.Error("its old connection is kept")
	}
	queue.Done(reconcile.Request{NamespacedName: key})
	next()
	if !c.admit(cluster) {
		t.Error("it gets no new connection")
	}
	queue.Done(reconcile.Request{NamespacedName: key})
	cluster.Spec.ControlPlaneRef.Kind = "AnotherControlPlane"
	if c.admit(cluster) {
		t.Error("admitted another provider's Cluster")
	}
}
