// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
)

// TestRetainInAScaleDown deletes a Cluster or its control plane with Retain while nodes wait for their removal: the provider has drained two of
// four nodes, core drains the third one, and the user has cordoned the fourth one. All nodes stay, so Pods must be able to run on them. No
// controller undoes anything later.
func TestRetainInAScaleDown(t *testing.T) {
	cluster := func(f *fixture, s *scope) {
		s.Cluster.DeletionTimestamp = ptr.To(metav1.Now())
		f.manager.reconcileWorkers(f.Context(), s)
	}
	controlPlane := func(f *fixture, s *scope) {
		s.ControlPlane.DeletionTimestamp = ptr.To(metav1.Now())
		if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil {
			f.Error(err)
		}
	}
	type row struct {
		delete   func(*fixture, *scope)
		policy   infrav1.DeletionPolicy
		change   func(*fixture, *scope)
		restored bool
	}
	cases(t, map[string]row{
		"the Cluster":                       {cluster, infrav1.DeletionPolicyRetain, nil, true},
		"the control plane":                 {controlPlane, infrav1.DeletionPolicyRetain, nil, true},
		"the portal cluster is deleted":     {cluster, infrav1.DeletionPolicyDelete, nil, false},
		"the portal cluster is not its own": {controlPlane, infrav1.DeletionPolicyRetain, func(_ *fixture, s *scope) { s.ControlPlane.UID = "another" }, false},
		"the portal removes nodes":          {cluster, infrav1.DeletionPolicyRetain, func(_ *fixture, s *scope) { s.Last = operation.New(operation.Scale, "2"); s.Last.From = 4 }, false},
		"the API server cannot be reached":  {controlPlane, infrav1.DeletionPolicyRetain, disconnected, false},
		"the API server accepts no change":  {controlPlane, infrav1.DeletionPolicyRetain, refusing, false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 4, emulator.Durations{})
		names := f.amidScaleDown()
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.DeletionPolicy, cp.Finalizers = test.policy, []string{infrav1.ControlPlaneFinalizer}
		})
		s := f.scope()
		if test.change != nil {
			test.change(f, s)
		}
		test.delete(f, s)
		for i, name := range names {
			n := &corev1.Node{}
			f.must(f.nodes.Get(t.Context(), client.ObjectKey{Name: name}, n))
			byUser := i == len(names)-1
			if n.Spec.Unschedulable == (test.restored && !byUser) {
				t.Errorf("node %d: cordoned %t", i, n.Spec.Unschedulable)
			}
			if len(marks(n)) == 0 != (test.restored || i == 2) {
				t.Errorf("node %d: annotations %v", i, marks(n))
			}
		}
		if got := f.controlPlane().Finalizers; test.policy == infrav1.DeletionPolicyRetain && s.Cluster.DeletionTimestamp.IsZero() && len(got) > 0 {
			t.Errorf("the deletion is held: %v", got)
		}
	})
}

func disconnected(_ *fixture, s *scope) { s.way.Access = workload.Unreachable }

func refusing(f *fixture, s *scope) {
	nodes, _ := f.nodes.Client.(client.WithWatch)
	s.way.Workload = &connection{client: interceptor.NewClient(nodes, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewForbidden(corev1.Resource("nodes"), "w", errors.New("a policy"))
		},
	})}
}

// marks are the annotations that a plan depends on.
func marks(n *corev1.Node) map[string]string {
	all := workers.TrimNode(n).Annotations
	delete(all, infrav1.BatchAnnotation)
	return all
}

// amidScaleDown makes the portal refuse a scale from 4 to 2 workers. It returns the names of the nodes that the provider has drained, of the node
// that core drains, and of the node that the user has cordoned, and that has the other annotations of the provider.
func (f *fixture) amidScaleDown() []string {
	f.Helper()
	f.pass()
	f.strike(emulator.Fault{Path: "/kubernetes-clusters/*/scale", Code: emulator.CodeResourceBusy})
	f.scale(2)
	for range 30 {
		f.pass()
		time.Sleep(5 * time.Second)
	}
	all := f.workers()
	slices.SortStableFunc(all, func(a, b corev1.Node) int { return len(marks(&b)) - len(marks(&a)) })
	byCore, byUser := &all[2], &all[3]
	if !metav1.HasAnnotation(all[1].ObjectMeta, infrav1.DrainedAnnotation) || len(marks(byCore)) > 0 {
		f.Fatalf("the provider has not drained two nodes: %+v", all)
	}
	for _, n := range []*corev1.Node{byCore, byUser} {
		if n.Spec.Unschedulable = true; n == byUser {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, "cluster-autoscaler.kubernetes.io/scale-down-disabled", "true")
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation, "")
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.DrainRulesAnnotation, "{}")
		}
		f.must(f.nodes.Update(f.Context(), n))
	}
	f.machine("m", func(m *clusterv1.Machine) {
		m.Finalizers = []string{clusterv1.MachineFinalizer}
		m.Annotations = map[string]string{infrav1.PreTerminateHook: ""}
	})
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "m"}}
	f.must(f.store.Get(f.Context(), client.ObjectKeyFromObject(m), m))
	m.Status.NodeRef.Name = byCore.Name
	f.must(f.store.Status().Update(f.Context(), m))
	f.must(f.store.Delete(f.Context(), m))
	return []string{all[0].Name, all[1].Name, byCore.Name, byUser.Name}
}

// TestAbandonedMachines deletes a control plane with Retain. The garbage collector has deleted the MachineSet of a Machine or its
// MachineDeployment, or a restore has replaced one of them. Core does not reconcile the Machine any more. No person has to remove its finalizer.
// A Machine whose owners exist, and one that is not being deleted, keep theirs.
func TestAbandonedMachines(t *testing.T) {
	live(t, 0, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.DeletionPolicy, cp.Finalizers = infrav1.DeletionPolicyRetain, []string{infrav1.ControlPlaneFinalizer}
		})
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "exists", UID: "md"}}
		f.must(f.store.Create(f.Context(), deployment))
		for name, owner := range map[string]metav1.OwnerReference{
			"exists": {Name: "exists", UID: "md"}, "restored": {Name: "exists", UID: "md"}, "orphan": {Name: "gone", UID: "md"}, "stranger": {Name: "exists", UID: "earlier"},
		} {
			owner.APIVersion, owner.Kind = clusterv1.GroupVersion.String(), "MachineDeployment"
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: prod.Namespace, Name: name, UID: "earlier", OwnerReferences: []metav1.OwnerReference{owner},
			}}
			if name == "restored" {
				set.UID = "new"
			}
			f.must(f.store.Create(f.Context(), set))
		}
		for name, set := range map[string]string{
			"abandoned": "gone", "of-a-restored-set": "restored", "of-an-orphan": "orphan", "of-a-restored-deployment": "stranger", "owned": "exists", "kept": "gone",
		} {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
				Namespace: prod.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}, Finalizers: []string{clusterv1.MachineFinalizer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set, UID: "earlier"}},
			}}
			m.Spec.InfrastructureRef.Kind = "PortalMachine"
			f.must(f.store.Create(f.Context(), m))
			if name == "kept" {
				continue
			}
			f.must(f.store.Delete(f.Context(), m))
		}
		s := f.scope()
		s.ControlPlane.DeletionTimestamp = ptr.To(metav1.Now())
		if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil {
			f.Fatal(err)
		}
		for name, gone := range map[string]bool{
			"abandoned": true, "of-a-restored-set": true, "of-an-orphan": true, "of-a-restored-deployment": true, "owned": false, "kept": false,
		} {
			m := &clusterv1.Machine{}
			err := f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: name}, m)
			if apierrors.IsNotFound(err) != gone || !gone && len(m.Finalizers) != 1 {
				f.Errorf("Machine %s: %v, finalizers %v", name, err, m.Finalizers)
			}
		}
	})
}
