// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// patchStatus writes what the pass found, if it changed. A new object that waits for the account's rate limit has nothing to
// report.
func (r *Reconciler) patchStatus(ctx context.Context, s *scope, before *infrav1.PortalClusterStatus) error {
	if s.waitsForTurn() && !conditions.Has(s.portalCluster, infrav1.ReadyCondition) {
		return nil
	}
	s.portalCluster.Status = *before.DeepCopy()
	s.updateStatus()
	err := outcome.PatchStatus(ctx, r.Client, s.portalCluster, &s.portalCluster.Status, *before)
	r.wrote(s.portalCluster) // a pass over the earlier status would repeat the events
	if err == nil {
		outcome.WarnStalled(r.Recorder, s.portalCluster, before.Conditions, map[string]outcome.Outcome{
			infrav1.IdentityReadyCondition: s.identityReady, infrav1.NetworkReadyCondition: s.networkReady,
		})
	}
	return err
}

// waitsForTurn reports whether the pass learned nothing new because it waits for the rate limit.
func (s *scope) waitsForTurn() bool {
	return s.cluster != nil && s.deleting.Reason == "" && (s.identityReady.Kind == outcome.Retry || s.networkReady.Kind == outcome.Retry)
}

// updateStatus turns what the pass found into status. It is the only place that does.
func (s *scope) updateStatus() {
	s.updateConditions()
	s.portalCluster.Status.ObservedGeneration = outcome.ObservedGeneration(s.portalCluster, infrav1.ReadyCondition)
}

func (s *scope) updateConditions() {
	status := &s.portalCluster.Status
	outcome.ReportNotPaused(s.portalCluster)
	if s.deleting.Reason != "" {
		outcome.Set(s.portalCluster, clusterv1.DeletingCondition, metav1.ConditionTrue, s.deleting)
		outcome.Set(s.portalCluster, infrav1.ReadyCondition, metav1.ConditionFalse,
			outcome.Outcome{Reason: infrav1.DeletingReason, Message: s.deleting.Message})
		return
	}
	outcome.Set(s.portalCluster, clusterv1.DeletingCondition, metav1.ConditionFalse, outcome.Outcome{Reason: clusterv1.NotDeletingReason})
	if s.cluster == nil {
		waiting := outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no Cluster owns this object. Name it in spec.infrastructureRef of a Cluster")
		outcome.Report(s.portalCluster, infrav1.ReadyCondition, waiting)
		return
	}
	if !s.placed {
		status.ZoneID = ""
	} else {
		status.ZoneID = cmp.Or(s.created.ZoneID, status.ZoneID, s.portalCluster.Spec.ZoneID)
	}
	outcome.Report(s.portalCluster, infrav1.IdentityReadyCondition, s.identityReady)
	outcome.Report(s.portalCluster, infrav1.NetworkReadyCondition, s.networkReady)
	found := s.identityReady.IsDone() && s.networkReady.IsDone()
	if !found && !s.upToDate() {
		status.VPCID, status.NetworkID = "", s.portalCluster.Annotations[infrav1.NetworkAnnotation]
		if conditions.IsTrue(s.portalCluster, infrav1.NetworkReadyCondition) { // a step with nothing to report has left it as it was
			outcome.Report(s.portalCluster, infrav1.NetworkReadyCondition,
				outcome.BlockedBy(infrav1.WaitingForDependencyReason, "the VPC and the network have to be found again before another creation"))
		}
	}
	outcome.Summarize(s.portalCluster, infrav1.ReadyCondition, infrav1.IdentityReadyCondition, infrav1.NetworkReadyCondition)
	if !found {
		return
	}
	status.VPCID, status.NetworkID = s.vpcID, s.networkID
	if s.created.ZoneID != "" {
		status.VPCID, status.NetworkID = s.created.VPCID, s.created.NetworkID
	}
	if s.hasKubeconfig {
		status.Initialization.Provisioned = ptr.To(true) // it is never reset, as the contract requires
	}
}

func (r *Reconciler) event(s *scope, reason, action, format string, args ...any) {
	r.Recorder.Eventf(s.portalCluster, nil, corev1.EventTypeNormal, reason, action, format, args...)
}
