// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileDelete deletes the portal cluster, then lets the PortalControlPlane go.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.controlPlane, infrav1.ControlPlaneFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.dropHooks(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	o := r.deleteCluster(ctx, s)
	if !o.IsDone() {
		s.outcomes[clusterv1.DeletingCondition] = o
		return outcome.Result(o), outcome.FirstError(o)
	}
	err := r.change(ctx, s, func() { controllerutil.RemoveFinalizer(s.controlPlane, infrav1.ControlPlaneFinalizer) })
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// deleteCluster takes the deletion one step further. It is done when there is nothing left at the portal.
func (r *Reconciler) deleteCluster(ctx context.Context, s *scope) outcome.Outcome {
	spec := s.controlPlane.Spec
	switch {
	case spec.ClusterID == "" && s.op == nil:
		r.tellAbandoned(s)
		return outcome.Outcome{} // the portal was never asked, or refused
	case spec.DeletionPolicy == infrav1.DeletionPolicyRetain:
		r.event(s, infrav1.EventPortalClusterRetained, "Delete", "portal cluster %s (id %s) is left as it is: deletionPolicy is Retain",
			spec.ClusterName, cmp.Or(spec.ClusterID, "unknown"))
		return outcome.Outcome{}
	case !s.infrastructure.IsDone():
		return s.infrastructure.Prefix("to delete the portal cluster (or set spec.deletionPolicy to Retain to leave it running)")
	case spec.ClusterID == "":
		return r.finishCreation(ctx, s)
	}
	return r.deleteKnown(ctx, s)
}

// finishCreation sees a creation through that is under way, or settles one whose outcome is unknown: only then is there
// an id to delete.
func (r *Reconciler) finishCreation(ctx context.Context, s *scope) outcome.Outcome {
	if s.op.Unknown != "" && journal.RetryAllowed(s.controlPlane, s.op) {
		// A person has seen that it does not exist.
		if err := r.change(ctx, s, func() { journal.Put(s.controlPlane, nil) }); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Outcome{}
	}
	o := r.create(ctx, s, cloud.CreateClusterRequest{Name: s.op.Target}, "")
	switch {
	case !o.IsDone() && s.op == nil:
		return outcome.Come(0) // the creation failed: nothing is left to delete
	case !o.IsDone():
		return o
	}
	return r.deleteKnown(ctx, s)
}

// deleteKnown deletes the cluster by its id, after the operation in flight, unless that is stuck.
func (r *Reconciler) deleteKnown(ctx context.Context, s *scope) outcome.Outcome {
	if s.op != nil && s.op.Type != journal.Create {
		deleting := s.op.Type == journal.Delete && s.op.JobID != ""
		o := r.reconcileOperation(ctx, s)
		stuck := o.Reason == infrav1.JobStuckReason && !deleting
		switch {
		case deleting && s.op == nil && r.deleted(s):
			r.tellAbandoned(s)
			return outcome.Outcome{}
		case s.op != nil && !stuck:
			return s.waitForJob(o)
		case o.Kind == outcome.Failed:
			return o
		}
	}
	return r.sendDelete(ctx, s)
}

// waitForJob says what the deletion waits for.
func (s *scope) waitForJob(o outcome.Outcome) outcome.Outcome {
	if o.Kind != outcome.Later {
		return o
	}
	return outcome.WaitFor(o.After, infrav1.DeletingPortalClusterReason, "waiting for the portal to %s (job %s)", describe(s.op), s.op.JobID)
}

// deleted tells whether the delete job that has just ended did its work; if not, its failure is in the backoff.
func (r *Reconciler) deleted(s *scope) bool {
	_, refused := r.backoff.Recall(s.attempt(journal.New(journal.Delete, s.controlPlane.Spec.ClusterID)))
	return !refused
}

func (r *Reconciler) sendDelete(ctx context.Context, s *scope) outcome.Outcome {
	id := s.controlPlane.Spec.ClusterID
	gone := false
	o := r.start(ctx, s, journal.New(journal.Delete, id), func(ctx context.Context) (cloud.Job, error) {
		job, err := s.identity.Portal.DeleteCluster(ctx, id)
		gone = cloud.IsNotFound(err)
		return job, err
	}, nil)
	switch {
	case gone:
		return r.goneOrHidden(ctx, s, o)
	case o.IsDone():
		return outcome.WaitFor(0, infrav1.DeletingPortalClusterReason, "waiting for the portal to %s (job %s)", describe(s.op), s.op.JobID).In(o.After)
	case o.Reason == infrav1.PortalBusyReason:
		return o
	}
	return o.Prefix("delete cluster %s", id)
}

// goneOrHidden decides what a 404 means: only under the user that created the cluster does it say that it is gone.
func (r *Reconciler) goneOrHidden(ctx context.Context, s *scope, o outcome.Outcome) outcome.Outcome {
	if !r.stranger(ctx, s) {
		return outcome.Outcome{}
	}
	return outcome.HoldFor(o.After, infrav1.AccountChangedReason,
		"the portal does not know cluster %s, which user %s created: see to it that the identity Secret holds that user's credentials, "+
			"or set spec.deletionPolicy to Retain if the cluster is gone", s.controlPlane.Spec.ClusterID, s.record.UserID)
}

func (r *Reconciler) tellAbandoned(s *scope) {
	if len(s.record.AbandonedNames) > 0 {
		r.warn(s, infrav1.EventOperationFailed, "Create", "creation failed under these names, records may remain at the portal: %s",
			strings.Join(s.record.AbandonedNames, ", "))
	}
}
