// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileDelete deletes the portal cluster, then removes the finalizer of the PortalControlPlane.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
		return ctrl.Result{}, nil
	}
	o := r.Ownership.HoldDeletion(ctx, &s.Pass)
	if o.IsDone() {
		if err := r.workers(s).Release(ctx, &s.Pass, s.way); err != nil {
			return ctrl.Result{}, err
		}
		o = r.Lifecycle.Delete(ctx, &s.Pass, func(ctx context.Context) func() { return r.reportVolumes(ctx, s) })
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
