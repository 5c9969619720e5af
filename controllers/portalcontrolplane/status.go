// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// patchStatus writes what the pass found, if it changed.
func (r *Reconciler) patchStatus(ctx context.Context, s *scope, before *infrav1.PortalControlPlaneStatus) error {
	s.ControlPlane.Status = *before.DeepCopy()
	s.updateStatus()
	err := outcome.PatchStatus(ctx, r.Client, s.ControlPlane, &s.ControlPlane.Status, *before)
	r.wrote(s.ControlPlane)
	if err == nil {
		outcome.WarnStalled(r.Recorder, s.ControlPlane, before.Conditions, s.outcomes)
		s.warnHalfProtected(before)
	}
	return err
}

// warnHalfProtected emits an event when the condition Deleting begins to say that only one object is protected.
func (s *scope) warnHalfProtected(before *infrav1.PortalControlPlaneStatus) {
	now := conditions.Get(s.ControlPlane, clusterv1.DeletingCondition)
	if now == nil || now.Status != metav1.ConditionFalse || now.Message == "" {
		return
	}
	if was := meta.FindStatusCondition(before.Conditions, now.Type); was == nil || was.Message != now.Message {
		s.Warn(infrav1.EventProtectionIncomplete, "Protect", "%s", now.Message)
	}
}

// updateStatus turns what the pass found into status. It is the only place that does.
func (s *scope) updateStatus() {
	status := &s.ControlPlane.Status
	outcome.ReportNotPaused(s.ControlPlane)
	status.ExternalManagedControlPlane = ptr.To(true) // from the first patch on, otherwise core would skip drain and hooks
	s.updateConditions()
	status.ObservedGeneration = outcome.ObservedGeneration(s.ControlPlane, infrav1.ReadyCondition)
}

func (s *scope) updateConditions() {
	if s.unreadable != nil {
		s.reportUnreadable()
		return
	}
	if deleting, found := s.outcomes[clusterv1.DeletingCondition]; found {
		s.reportDeleting(deleting)
		s.reportOperation()
		return
	}
	outcome.Set(s.ControlPlane, clusterv1.DeletingCondition, metav1.ConditionFalse,
		outcome.Outcome{Reason: clusterv1.NotDeletingReason, Message: ownership.HalfProtected(s.ControlPlane, s.Cluster)})
	if s.Cluster == nil {
		s.reportUnusable(outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no Cluster owns this object. Name it in spec.controlPlaneRef of a Cluster"))
		return
	}
	if !s.Gone.IsDone() { // a later step noticed it
		s.outcomes[infrav1.ProvisionedCondition] = s.Gone
	}
	for condition, o := range s.outcomes {
		if condition != infrav1.OperationInProgressCondition {
			outcome.Report(s.ControlPlane, condition, o)
		}
	}
	s.reportOperation()
	s.countReplicas()
	s.reportAvailable()
	s.reportReady()
	s.reportTopology()
	s.ControlPlane.Status.RemovalOrder = workers.ExpectedOrder(&s.Pass)
}

// reportUnreadable reports why nothing is done, not even a deletion.
func (s *scope) reportUnreadable() {
	o := outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", s.unreadable)
	if !s.ControlPlane.DeletionTimestamp.IsZero() {
		s.outcomes[clusterv1.DeletingCondition] = o
		s.reportDeleting(o)
		return
	}
	s.outcomes[infrav1.AvailableCondition] = o
	s.reportUnusable(o)
}

// reportUnusable reports the problem that keeps a pass from doing anything else.
func (s *scope) reportUnusable(o outcome.Outcome) {
	outcome.Report(s.ControlPlane, infrav1.AvailableCondition, o)
	outcome.Report(s.ControlPlane, infrav1.ReadyCondition, o)
}

func (s *scope) reportDeleting(o outcome.Outcome) {
	if o.Kind == outcome.Retry {
		return
	}
	o.Reason = cmp.Or(o.Reason, infrav1.DeletingReason) // an unexpected error has none
	outcome.Set(s.ControlPlane, clusterv1.DeletingCondition, metav1.ConditionTrue, o)
	s.reportUnusable(outcome.WaitFor(0, infrav1.DeletingReason, "%s", o.Message))
}

// reportOperation reports the operation in flight, here and in the conditions that the Cluster sums up.
func (s *scope) reportOperation() {
	reason, polled := operationReason(s.Op()), s.outcomes[infrav1.OperationInProgressCondition]
	running, o := metav1.ConditionFalse, outcome.Outcome{Reason: infrav1.IdleReason}
	if s.Op() != nil {
		running = metav1.ConditionTrue
		o = outcome.Outcome{Reason: reason, Message: s.Op().String() + jobOf(s.Op())}
		if polled.Kind == outcome.Stalled || polled.Kind == outcome.Wait {
			o = outcome.Outcome{Reason: polled.Reason, Message: polled.Message}
		}
	}
	outcome.Set(s.ControlPlane, infrav1.OperationInProgressCondition, running, o)
	for _, c := range []struct{ condition, when, otherwise string }{
		{clusterv1.RollingOutCondition, infrav1.UpgradingReason, clusterv1.NotRollingOutReason},
		{clusterv1.ScalingUpCondition, infrav1.ScalingUpReason, clusterv1.NotScalingUpReason},
		{clusterv1.ScalingDownCondition, infrav1.ScalingDownReason, clusterv1.NotScalingDownReason},
	} {
		if reason == c.when {
			outcome.Set(s.ControlPlane, c.condition, metav1.ConditionTrue, o)
		} else {
			outcome.Set(s.ControlPlane, c.condition, metav1.ConditionFalse, outcome.Outcome{Reason: c.otherwise})
		}
	}
}

func jobOf(op *operation.Operation) string {
	if op.JobID == "" {
		return ""
	}
	return " (job " + op.JobID + ")"
}

func operationReason(op *operation.Operation) string {
	switch {
	case op == nil:
		return infrav1.IdleReason
	case op.Lost() && !op.Type.Repeatable():
		return infrav1.OutcomeUnknownReason
	case op.Type == operation.Upgrade:
		return infrav1.UpgradingReason
	case op.Type == operation.Delete:
		return infrav1.DeletingReason
	case op.Type == operation.Create:
		return infrav1.CreatingReason
	case op.RemovesNodes():
		return infrav1.ScalingDownReason
	}
	return infrav1.ScalingUpReason
}

// reportAvailable sets Available from the first condition that keeps the API server from being used. While the provider is connected, the
// Secret does not.
func (s *scope) reportAvailable() {
	needed := []string{infrav1.ProvisionedCondition, infrav1.KubeconfigReadyCondition, infrav1.ConnectedCondition}
	if s.way.Open() {
		needed = []string{infrav1.ProvisionedCondition, infrav1.ConnectedCondition}
		s.ControlPlane.Status.KubeconfigExpires = s.way.Ends
	}
	outcome.Summarize(s.ControlPlane, infrav1.AvailableCondition, needed...)
	// clusterctl describe shows this condition next to the wanted version, which looks as if that version were running.
	version := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
	if conditions.IsTrue(s.ControlPlane, infrav1.AvailableCondition) && version != nil && version.Status == metav1.ConditionFalse {
		outcome.SetMessage(s.ControlPlane, infrav1.AvailableCondition, "the cluster runs "+s.ControlPlane.Status.Version+". "+version.Message)
	}
	// Core looks at Machines when the control plane is initialized, but reports on them only if the infrastructure is provisioned
	// by then.
	if s.done(infrav1.KubeconfigReadyCondition) && s.ControlPlane.Spec.ControlPlaneEndpoint.IsValid() && s.Provisioned() {
		s.ControlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
}

// reportReady reports whether the portal cluster is as spec and the replicas ask. Its reason is that of the first condition that
// is not True.
func (s *scope) reportReady() {
	outcome.Summarize(s.ControlPlane, infrav1.ReadyCondition, infrav1.ProvisionedCondition, infrav1.KubeconfigReadyCondition,
		infrav1.ConnectedCondition, infrav1.VersionUpToDateCondition, infrav1.WorkersReadyCondition)
}

// reportTopology reports what would keep the topology controller from upgrading the Cluster.
func (s *scope) reportTopology() {
	if !s.Cluster.Spec.Topology.IsDefined() {
		conditions.Delete(s.ControlPlane, infrav1.TopologyUpgradableCondition)
		return
	}
	o := enoughConcurrency(s.Cluster)
	if o.IsDone() {
		o = s.upgradable()
	}
	outcome.Report(s.ControlPlane, infrav1.TopologyUpgradableCondition, o)
}

// countReplicas fills versions and counters.
func (s *scope) countReplicas() {
	status, nodes := &s.ControlPlane.Status, s.ControlPlane.Spec.Replicas
	connected := conditions.IsTrue(s.ControlPlane, infrav1.ConnectedCondition)
	count := func(when bool) *int32 {
		if when {
			return ptr.To(ptr.Deref(nodes, 0))
		}
		return ptr.To[int32](0)
	}
	status.Replicas = count(s.ControlPlane.Spec.ClusterID != "")
	status.ReadyReplicas, status.AvailableReplicas = count(connected), count(connected)
	// Core's MachineSets look at the version every 15 s, so it comes early. Later it is what the API server shows.
	if s.Record.Version != "" && s.ControlPlane.Spec.ClusterID != "" && (status.Version == "" || s.done(infrav1.ConnectedCondition)) {
		status.Version = lifecycle.Equivalent(s.ControlPlane.Spec.Version, s.running().Shown())
		status.Versions = []clusterv1.StatusVersion{{Version: status.Version, Replicas: ptr.Deref(nodes, 0)}}
	}
	status.UpToDateReplicas = count(connected && status.Version == s.ControlPlane.Spec.Version)
	if s.done(infrav1.ConnectedCondition) && s.plan != nil {
		unclaimed := s.plan.Free + len(s.plan.Drained) + len(s.plan.DrainingNodes)
		status.Workers = &infrav1.WorkerCounts{
			Desired: int32(s.plan.Desired),
			Size:    int32(max(0, s.Record.Size)),
			Nodes:   int32(len(s.plan.Present)),
			Claimed: int32(len(s.plan.Present) - unclaimed),
		}
	}
}
