// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
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
		o = r.deleteCluster(ctx, s)
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

// deleteCluster takes the deletion one step further. It is done when nothing is left at the portal.
func (r *Reconciler) deleteCluster(ctx context.Context, s *scope) outcome.Outcome {
	spec := s.ControlPlane.Spec
	mine, err := r.Ownership.MayDelete(ctx, &s.Pass)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case spec.ClusterID == "" && s.Op() == nil:
		r.warnAbandonedNames(s)
		return outcome.Outcome{} // no request was sent, or it was refused
	case !mine:
		s.Event(infrav1.EventPortalClusterRetained, "Delete", "Left portal cluster %s unchanged: this object does not own it", spec.ClusterID)
		return outcome.Outcome{}
	case s.DeletionPolicy() == infrav1.DeletionPolicyRetain:
		s.Event(infrav1.EventPortalClusterRetained, "Delete", "Left portal cluster %s unchanged: deletionPolicy is Retain",
			cmp.Or(spec.ClusterID, spec.ClusterName)) // the name of an adopted cluster is not known
		return outcome.Outcome{}
	case !s.Infrastructure.IsDone():
		return s.Infrastructure.Prefix("the portal cluster cannot be deleted yet (to keep it, set spec.deletionPolicy to Retain)")
	case spec.ClusterID == "":
		return r.finishCreation(ctx, s)
	}
	return r.deleteKnown(ctx, s)
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

// finishCreation waits for a creation that is under way, or settles one whose outcome is unknown, because without it no id to
// delete is known.
func (r *Reconciler) finishCreation(ctx context.Context, s *scope) outcome.Outcome {
	settled := s.Op().Lost() && infrav1.DecisionRetry.MadeOn(s.ControlPlane, s.Op().ID) // a person has checked that the cluster does not exist
	o := r.pollCreation(ctx, s)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case s.ControlPlane.Spec.ClusterID != "":
		return outcome.RetryAfter(0) // the next pass decides whether it is deleted
	case s.Op() == nil && settled:
		return outcome.Outcome{}
	case s.Op() == nil:
		return outcome.RetryAfter(0) // the creation failed, so nothing is left to delete
	}
	return o
}

// deleteKnown deletes the cluster by its id. It waits for the operation in flight, unless that is stuck or lost.
func (r *Reconciler) deleteKnown(ctx context.Context, s *scope) outcome.Outcome {
	if s.Op().Is(operation.Create) {
		if o := s.Runner().Finish(ctx, operation.Abandoned, s.ControlPlane.Spec.ClusterID); !o.IsDone() {
			return o
		}
	}
	running := s.Op()
	if running != nil {
		o := r.reconcileOperation(ctx, s)
		switch {
		case o.Kind == outcome.Failed:
			return o
		case running.Type == operation.Delete && s.Last.Result == operation.Succeeded:
			r.warnAbandonedNames(s)
			return outcome.Outcome{}
		case s.Op() == nil, s.Op().Lost() && s.Op().ResendIn() == 0, s.Op().Type != operation.Delete && (s.Op().Lost() || o.Reason == infrav1.JobStuckReason):
			// the deletion is sent
		default:
			return operation.Progress(s.Op(), o, infrav1.DeletingReason)
		}
	}
	return r.sendDelete(ctx, s)
}

// sendDelete asks the portal to delete the cluster. It is done if the portal does not know it.
func (r *Reconciler) sendDelete(ctx context.Context, s *scope) outcome.Outcome {
	id := s.ControlPlane.Spec.ClusterID
	op := operation.New(operation.Delete, id)
	op.Nodes = max(0, s.Record.Size)
	o, err := s.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) { return s.Identity.Portal.DeleteCluster(ctx, id) })
	if !cloud.IsNotFound(err) {
		return operation.Progress(s.Op(), o, infrav1.DeletingReason)
	}
	hidden := s.Runner().NotFound(ctx, "cluster "+id).NoLaterThan(o.RequeueAfter)
	if hidden.Kind == outcome.Stalled {
		hidden.Message += ", or set spec.deletionPolicy to Retain if the cluster is gone"
	}
	return hidden
}

func (r *Reconciler) warnAbandonedNames(s *scope) {
	if names := s.Record.AbandonedNames; len(names) > 0 {
		s.Warn(infrav1.EventOperationFailed, "Create", "Creating the cluster failed under %d names. Look for clusters with these names at the portal, "+
			"and delete them there: %s", len(names), strings.Join(names, ", "))
	}
}
