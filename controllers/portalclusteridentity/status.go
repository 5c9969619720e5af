// SPDX-License-Identifier: Apache-2.0

package portalclusteridentity

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// patchStatus writes what the pass found, if it changed.
func (r *Reconciler) patchStatus(ctx context.Context, s *scope, before *infrav1.PortalClusterIdentityStatus) error {
	s.identity.Status = *before.DeepCopy()
	s.updateStatus()
	if err := outcome.PatchStatus(ctx, r.Client, s.identity, &s.identity.Status, *before); err != nil {
		return err
	}
	outcome.WarnStalled(r.Recorder, s.identity, before.Conditions, map[string]outcome.Outcome{infrav1.ReadyCondition: s.ready})
	return nil
}

// updateStatus turns what the pass found into status. It is the only place that does.
func (s *scope) updateStatus() {
	outcome.Report(s.identity, infrav1.ReadyCondition, s.ready)
	if s.ready.Kind != outcome.Retry {
		s.identity.Status.ObservedGeneration = s.identity.Generation
	}
	switch {
	case s.identity.DeletionTimestamp.IsZero():
		outcome.Set(s.identity, clusterv1.DeletingCondition, metav1.ConditionFalse, outcome.Outcome{Reason: clusterv1.NotDeletingReason})
	case s.deleting.Kind == outcome.Wait:
		outcome.Set(s.identity, clusterv1.DeletingCondition, metav1.ConditionTrue, s.deleting)
	}
}
