// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// operationOn returns what the operation in flight does to nodes.
func operationOn(op *operation.Operation) claims.Operation {
	switch {
	case op == nil:
		return claims.Idle
	case op.Type == operation.Scale && !op.RemovesNodes():
		return claims.AddingNodes
	case op.Type == operation.Scale:
		return claims.RemovingNodes
	}
	return claims.ReplacingNodes
}

func (s *scope) machineViews(portalMachines []infrav1.PortalMachine) []claims.Machine {
	byName := map[string]infrav1.PortalMachine{}
	for _, pm := range portalMachines {
		byName[pm.Name] = pm
	}
	var views []claims.Machine
	for _, m := range s.desired.machines {
		pm, found := byName[m.Spec.InfrastructureRef.Name]
		if !found && m.DeletionTimestamp.IsZero() {
			continue // core is still making it
		}
		view := machineView(m, pm)
		if !found {
			// the PortalMachine was deleted by hand; the Machine still has the Node
			view.ClaimProviderID, view.PortalMachineDeleted = view.ProviderID, true
		}
		view.TemplateMismatch = found && s.record.Workers != nil && pm.Spec.WorkerParameters != *s.record.Workers
		view.Suspect = s.checks.suspect(&m)
		views = append(views, view)
	}
	return views
}

func machineView(m clusterv1.Machine, pm infrav1.PortalMachine) claims.Machine {
	deleting := conditions.GetReason(&m, clusterv1.MachineDeletingCondition)
	view := claims.Machine{
		Name:                 m.Name,
		Created:              m.CreationTimestamp.Time,
		Set:                  m.Labels[clusterv1.MachineSetNameLabel],
		Owner:                cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.MachineSetNameLabel]),
		Outdated:             conditions.GetReason(&m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason,
		DeleteFirst:          metav1.HasAnnotation(m.ObjectMeta, clusterv1.DeleteMachineAnnotation),
		Unhealthy:            conditions.IsFalse(&m, clusterv1.MachineHealthCheckSucceededCondition),
		Shielded:             metav1.HasAnnotation(m.ObjectMeta, infrav1.ShieldAnnotation),
		Deleting:             !m.DeletionTimestamp.IsZero() || !pm.DeletionTimestamp.IsZero(),
		PreDrain:             metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook),
		PreTerminate:         metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook),
		Drained:              deleting == clusterv1.MachineDeletingWaitingForPreTerminateHookReason,
		ClaimProviderID:      pm.Spec.ProviderID,
		PortalMachineDeleted: !pm.DeletionTimestamp.IsZero(),
		ProviderID:           m.Spec.ProviderID,
		NodeRef:              m.Status.NodeRef.Name,
	}
	if pm.Spec.Node != nil {
		view.ClaimNode, view.ClaimNodeUID = pm.Spec.Node.Name, pm.Spec.Node.UID
	}
	return view
}

func (s *scope) nodeViews() []claims.Node {
	var views []claims.Node
	for i := range s.nodes {
		n := &s.nodes[i]
		view := claims.Node{
			Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Created: n.CreationTimestamp.Time,
			Ready: util.IsNodeReady(n), NotReadySince: notReadySince(n), Sick: s.checks.sick(n),
			Cordoned: n.Spec.Unschedulable, LastSet: n.Annotations[clusterv1.OwnerNameAnnotation],
			TaintedByAutoscaler: tainted(n, autoscalerTaint),
			DrainStarted:        timeIn(n, infrav1.DrainStartedAnnotation), Drained: timeIn(n, infrav1.DrainedAnnotation),
			Remediated: timeIn(n, infrav1.RemediatedAnnotation),
			Frozen:     metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation),
		}
		view.ScaleDownSetByUser = setByUser(n)
		view.Pinned = s.pinned[n.Name] || view.ScaleDownSetByUser && n.Annotations[scaleDownDisabled] == "true"
		views = append(views, view)
	}
	return views
}

// notReadySince returns when the Node was last Ready, or zero if it is Ready or that is not known.
func notReadySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// timeIn returns the time that an annotation of the provider holds. A value that is no time counts as long ago, so that a person who
// writes one gets what the annotation says.
func timeIn(n *corev1.Node, annotation string) time.Time {
	value, found := n.Annotations[annotation]
	if !found {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return t
	}
	return n.CreationTimestamp.Add(time.Second)
}
