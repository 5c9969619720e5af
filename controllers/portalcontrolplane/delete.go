// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileDelete deletes the portal cluster, then removes the finalizer of the PortalControlPlane.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
		return ctrl.Result{}, nil
	}
	o := r.Ownership.HoldDeletion(ctx, &s.Pass)
	if o.IsDone() {
		if err := r.dropHooks(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
		o = r.Lifecycle.Delete(ctx, &s.Pass)
	}
	if !o.IsDone() {
		s.outcomes[clusterv1.DeletingCondition] = o
		outcome.Log(ctx, o)
		return outcome.Result(o), outcome.FirstError(o)
	}
	if err := r.Ownership.RemoveFromIdentity(ctx, &s.Pass); err != nil {
		o := outcome.Fail(err)
		return outcome.Result(o), outcome.FirstError(o)
	}
	r.Access.Forget(&s.Pass)
	err := s.Change(ctx, func(*operation.State) { controllerutil.RemoveFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) })
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// restoreNodes undoes a scale-down that has begun on nodes of a portal cluster that stays: they become schedulable and lose our annotations,
// which no controller will do later. While the portal removes nodes, all of them are left alone, because Pods would return to those that go.
// A workload cluster that cannot be changed must not hold the deletion.
func (r *Reconciler) restoreNodes(ctx context.Context, s *scope, machines []clusterv1.Machine) error {
	if s.Cluster == nil || !s.Owns() || s.DeletionPolicy() != infrav1.DeletionPolicyRetain || operationOn(s.Op()) == claims.RemovingNodes {
		return nil
	}
	if s.way.Workload == nil {
		var err error
		if s.way, err = r.Access.Reopen(ctx, &s.Pass); err != nil {
			return err
		}
	}
	if s.way.Workload == nil || s.way.Access.Failing() {
		return nil
	}
	workload := s.way.Workload.Client()
	nodes, _, err := listNodes(ctx, workload)
	for i := 0; i < len(nodes) && err == nil; i++ {
		n := &nodes[i]
		err = operation.Writer{Client: workload}.Change(ctx, n, func() {
			if isDrained(n, machines) {
				setDrainState(n, claims.DrainState{})
			}
			delete(n.Annotations, infrav1.RemediatedAnnotation)
			enableScaleDown(n)
		})
	}
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	ctrl.LoggerFrom(ctx).Error(err, "Failed to undo the scale-down of a portal cluster that stays. Nodes may stay cordoned")
	return nil
}

// isDrained reports whether the Node is being drained or was. While core drains it, the Node is cordoned and has no mark of ours.
func isDrained(n *corev1.Node, machines []clusterv1.Machine) bool {
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation) || metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation) {
		return true
	}
	return slices.ContainsFunc(machines, func(m clusterv1.Machine) bool {
		view := machineView(m, infrav1.PortalMachine{})
		return view.NodeRef == n.Name && view.Deleting && view.PreTerminate && !view.PreDrain
	})
}
