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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestRetainInAScaleDown deletes a Cluster or its control plane with Retain while nodes wait for their removal: the provider has drained two of four
// nodes, core drains the third one, and the user has cordoned the fourth one. All nodes stay, and only the user's does not take Pods again.
func TestRetainInAScaleDown(t *testing.T) {
	cluster := func(f *fixture, s *scope) {
		s.Cluster.DeletionTimestamp = ptr.To(metav1.Now())
		f.manager.reconcileWorkers(f.Context(), s)
	}
	controlPlane := func(f *fixture, s *scope) {
		s.ControlPlane.DeletionTimestamp = ptr.To(metav1.Now())
		if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil || len(f.controlPlane().Finalizers) > 0 {
			f.Errorf("the deletion is held: %v", err)
		}
	}
	type row struct {
		delete   func(*fixture, *scope)
		change   func(*scope)
		restored bool
	}
	cases(t, map[string]row{
		"the Cluster":                       {cluster, func(*scope) {}, true},
		"the control plane":                 {controlPlane, func(*scope) {}, true},
		"the portal cluster is deleted":     {cluster, func(s *scope) { s.ControlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete }, false},
		"the portal cluster is not its own": {controlPlane, func(s *scope) { s.ControlPlane.UID = "another" }, false},
		"the portal removes nodes":          {cluster, func(s *scope) { s.Last = &operation.Operation{Type: operation.Scale, From: 4, Target: "2"} }, false},
		"the API server cannot be reached":  {controlPlane, func(s *scope) { s.way.Health = workload.Unreachable }, false},
		"the API server accepts no change":  {controlPlane, refusing, false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 4, emulator.Durations{})
		names := f.amidScaleDown()
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.DeletionPolicy, cp.Finalizers = infrav1.DeletionPolicyRetain, []string{infrav1.ControlPlaneFinalizer}
		})
		s := f.scope()
		test.change(s)
		test.delete(f, s)
		for i, name := range names {
			n := &corev1.Node{}
			f.must(f.nodes.Get(t.Context(), client.ObjectKey{Name: name}, n))
			if byUser := i == 3; n.Spec.Unschedulable == (test.restored && !byUser) {
				t.Errorf("node %d: cordoned %t", i, n.Spec.Unschedulable)
			}
			if byCore := i == 2; len(marks(n)) == 0 != (test.restored || byCore) {
				t.Errorf("node %d: annotations %v", i, marks(n))
			}
		}
	})
}

func refusing(s *scope) {
	nodes, _ := s.way.Connection.Client().(client.WithWatch)
	s.way.Connection = &connection{client: interceptor.NewClient(nodes, interceptor.Funcs{
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
	f.strike(emulator.Fault{Path: routeScale, Code: emulator.CodeResourceBusy})
	f.scale(2)
	f.passes(150*time.Second, 5*time.Second)
	all := f.workers()
	slices.SortStableFunc(all, func(a, b corev1.Node) int { return len(marks(&b)) - len(marks(&a)) })
	if cordoned, _ := f.cordoned(); len(cordoned) != 2 || !metav1.HasAnnotation(all[1].ObjectMeta, infrav1.DrainedAnnotation) {
		f.Fatalf("the provider has not drained two nodes: %+v", all)
	}
	byCore, byUser := all[2].Name, all[3].Name
	f.cordon(byCore, true)
	f.changeNode(byUser, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] = "true"
		n.Annotations[infrav1.ScaleDownDisabledAnnotation], n.Annotations[infrav1.DrainRulesAnnotation] = "", "{}"
	})
	f.machine("m", func(m *clusterv1.Machine) {
		m.Finalizers, m.Annotations = []string{clusterv1.MachineFinalizer}, map[string]string{infrav1.PreTerminateHook: ""}
		m.Status.NodeRef.Name = byCore
	})
	f.must(f.store.Delete(f.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "m"}}))
	return []string{all[0].Name, all[1].Name, byCore, byUser}
}

// TestAbandonedMachines deletes a control plane with Retain. Core does not reconcile Machines whose MachineSet or MachineDeployment was collected, or
// replaced by a restore, so they lose their finalizer. A Machine whose owners exist, and one that is not being deleted, keep theirs.
func TestAbandonedMachines(t *testing.T) {
	live(t, 0, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.DeletionPolicy, cp.Finalizers = infrav1.DeletionPolicyRetain, []string{infrav1.ControlPlaneFinalizer}
		})
		meta := func(name string, uid types.UID, ownerKind, owner string) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Namespace: prod.Namespace, Name: name, UID: uid, Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: ownerKind, Name: owner, UID: "uid"}},
			}
		}
		for _, o := range []client.Object{
			&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "exists", UID: "uid"}},
			&clusterv1.MachineSet{ObjectMeta: meta("exists", "uid", "MachineDeployment", "exists")},
			&clusterv1.MachineSet{ObjectMeta: meta("restored", "new", "MachineDeployment", "exists")},
			&clusterv1.MachineSet{ObjectMeta: meta("orphan", "uid", "MachineDeployment", "gone")},
		} {
			f.must(f.store.Create(f.Context(), o))
		}
		machines := map[string]struct {
			set        string
			stays, end bool // it is not being deleted, or loses its finalizer
		}{
			"abandoned": {set: "gone", end: true}, "of-a-restored-set": {set: "restored", end: true}, "of-an-orphan": {set: "orphan", end: true},
			"owned": {set: "exists"}, "kept": {set: "gone", stays: true},
		}
		for name, test := range machines {
			m := &clusterv1.Machine{ObjectMeta: meta(name, "", "MachineSet", test.set)}
			m.Finalizers, m.Spec.InfrastructureRef.Kind = []string{clusterv1.MachineFinalizer}, "PortalMachine"
			f.must(f.store.Create(f.Context(), m))
			if !test.stays {
				f.must(f.store.Delete(f.Context(), m))
			}
		}
		s := f.scope()
		s.ControlPlane.DeletionTimestamp = ptr.To(metav1.Now())
		_, err := f.manager.reconcileDelete(f.Context(), s)
		f.must(err)
		for name, test := range machines {
			m := &clusterv1.Machine{}
			err := f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: name}, m)
			if apierrors.IsNotFound(err) != test.end || !test.end && len(m.Finalizers) != 1 {
				f.Errorf("Machine %s: %v, finalizers %v", name, err, m.Finalizers)
			}
		}
	})
}
