// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// updateStatus turns what the pass found into status. It is the only place that does.
func (s *scope) updateStatus() {
	status := &s.portalCluster.Status
	if s.deleting.Reason != "" {
		outcome.Set(s.portalCluster, clusterv1.DeletingCondition, metav1.ConditionTrue, s.deleting)
		outcome.Set(s.portalCluster, infrav1.ReadyCondition, metav1.ConditionFalse,
			outcome.Outcome{Reason: infrav1.DeletingReason, Message: s.deleting.Message})
		return
	}
	outcome.Set(s.portalCluster, clusterv1.DeletingCondition, metav1.ConditionFalse, outcome.Outcome{Reason: infrav1.NotDeletingReason})
	if s.cluster == nil {
		waiting := outcome.WaitFor(0, infrav1.WaitingForClusterReason, "no Cluster refers to this object in spec.infrastructureRef")
		outcome.Report(s.portalCluster, infrav1.ReadyCondition, waiting)
		return
	}
	outcome.Report(s.portalCluster, infrav1.IdentityReadyCondition, s.identityReady)
	outcome.Report(s.portalCluster, infrav1.NetworkReadyCondition, s.networkReady)
	s.summarize()
	if s.identityReady.IsDone() && s.networkReady.IsDone() {
		status.Initialization.Provisioned = ptr.To(true) // and so it stays: the contract does not take it back
		status.VPCID, status.NetworkID = s.vpcID, s.networkID
	}
}

// summarize makes Ready of the first of the other conditions that is not True.
func (s *scope) summarize() {
	summary := outcome.Outcome{Reason: infrav1.ReadyReason}
	status := metav1.ConditionTrue
	for _, t := range []string{infrav1.IdentityReadyCondition, infrav1.NetworkReadyCondition} {
		c := conditions.Get(s.portalCluster, t)
		if c == nil {
			return // it was never reached
		}
		if c.Status != metav1.ConditionTrue {
			summary, status = outcome.Outcome{Reason: c.Reason, Message: c.Message}, metav1.ConditionFalse
			break
		}
	}
	outcome.Set(s.portalCluster, infrav1.ReadyCondition, status, summary)
}

func (r *Reconciler) event(s *scope, reason, action, format string, args ...any) {
	r.Recorder.Eventf(s.portalCluster, nil, corev1.EventTypeNormal, reason, action, format, args...)
}
