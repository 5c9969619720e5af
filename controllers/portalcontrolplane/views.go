// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
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
			continue // core is still creating it
		}
		view := machineView(m, pm)
		if !found {
			// The PortalMachine was deleted by hand, but the Machine still has the Node.
			view.ClaimProviderID, view.PortalMachineDeleted = view.ProviderID, true
		}
		view.TemplateMismatch = found && s.Record.Workers != nil && pm.Spec.WorkerParameters != *s.Record.Workers
		view.HasUnhealthyCondition = s.checks.machineUnhealthy(&m)
		views = append(views, view)
	}
	return views
}

func machineView(m clusterv1.Machine, pm infrav1.PortalMachine) claims.Machine {
	deleting, rules := conditions.GetReason(&m, clusterv1.MachineDeletingCondition), drain.RulesOf(m.Labels, m.Annotations, m.Spec.Deletion)
	view := claims.Machine{
		Name:                 m.Name,
		Created:              m.CreationTimestamp.Time,
		MachineSet:           m.Labels[clusterv1.MachineSetNameLabel],
		Owner:                cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.MachineSetNameLabel]),
		Outdated:             conditions.GetReason(&m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason,
		DeleteFirst:          metav1.HasAnnotation(m.ObjectMeta, clusterv1.DeleteMachineAnnotation),
		Unhealthy:            conditions.IsFalse(&m, clusterv1.MachineHealthCheckSucceededCondition),
		Shielded:             metav1.HasAnnotation(m.ObjectMeta, infrav1.ShieldAnnotation),
		Deleting:             !m.DeletionTimestamp.IsZero() || !pm.DeletionTimestamp.IsZero(),
		PreDrain:             metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook),
		PreTerminate:         metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook),
		Drained:              deleting == clusterv1.MachineDeletingWaitingForPreTerminateHookReason,
		DrainRules:           rules.String(),
		ClaimProviderID:      pm.Spec.ProviderID,
		PortalMachineDeleted: !pm.DeletionTimestamp.IsZero(),
		ProviderID:           m.Spec.ProviderID,
		NodeRef:              m.Status.NodeRef.Name,
	}
	// Core skips the drain of a Machine whose PortalMachine is being deleted.
	view.DrainSkipped = view.Drained && !rules.Excluded && (m.Status.Deletion == nil || m.Status.Deletion.NodeDrainStartTime.IsZero())
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
			Ready: util.IsNodeReady(n), NotReadySince: s.notReadySince(n), HasUnhealthyCondition: s.checks.nodeUnhealthy(n),
			LastMachineSet: n.Annotations[clusterv1.OwnerNameAnnotation], Uninitialized: tainted(n, uninitializedTaint),
			DrainState: claims.DrainState{
				Cordoned: n.Spec.Unschedulable, TaintedByAutoscaler: tainted(n, autoscalerTaint),
				DrainStarted: timeIn(n, infrav1.DrainStartedAnnotation), Drained: timeIn(n, infrav1.DrainedAnnotation),
			},
			Remediated:        timeIn(n, infrav1.RemediatedAnnotation),
			DrainRules:        n.Annotations[infrav1.DrainRulesAnnotation],
			ScaleDownDisabled: metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation),
		}
		view.ScaleDownSetByUser = setByUser(n)
		view.Pinned = s.pinned[n.Name] || view.ScaleDownSetByUser && n.Annotations[scaleDownDisabled] == "true"
		views = append(views, view)
	}
	return views
}

// notReadySince returns when the Node was last Ready by the manager's clock, or zero if it is Ready or the time is unknown. Where
// the workload cluster's clock is behind, a Node that is away for a moment would count as lost, and be removed with its Pods.
func (s *scope) notReadySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Add(s.clockBehind)
		}
	}
	return time.Time{}
}

// timeIn returns the time in an annotation of the provider. An invalid value counts as long ago, so that an annotation which a
// person sets by hand has its effect.
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

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch

// healthChecks are the conditions that the MachineHealthChecks of a Cluster act on. Their timeouts do not matter here: a Machine
// is protected from remediation as long as a condition holds that would lead to it.
type healthChecks struct {
	nodes    []clusterv1.UnhealthyNodeCondition
	machines []clusterv1.UnhealthyMachineCondition
}

// healthChecks reads the MachineHealthChecks of the Cluster.
func (r *Reconciler) healthChecks(ctx context.Context, s *scope) (healthChecks, error) {
	all := &clusterv1.MachineHealthCheckList{}
	if err := r.Client.List(ctx, all, client.InNamespace(s.Cluster.Namespace)); err != nil {
		return healthChecks{}, err
	}
	return healthChecksOf(s.Cluster, all.Items), nil
}

func healthChecksOf(cluster *clusterv1.Cluster, all []clusterv1.MachineHealthCheck) (checks healthChecks) {
	for _, check := range all {
		if check.Spec.ClusterName == cluster.Name {
			checks.nodes = append(checks.nodes, check.Spec.Checks.UnhealthyNodeConditions...)
			checks.machines = append(checks.machines, check.Spec.Checks.UnhealthyMachineConditions...)
		}
	}
	return checks
}

// nodeUnhealthy reports whether a MachineHealthCheck would replace the Machine of the Node.
func (h healthChecks) nodeUnhealthy(n *corev1.Node) bool {
	return slices.ContainsFunc(h.nodes, func(c clusterv1.UnhealthyNodeCondition) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(has corev1.NodeCondition) bool { return has.Type == c.Type && has.Status == c.Status })
	})
}

// machineUnhealthy reports whether a MachineHealthCheck would replace the Machine for one of its own conditions.
func (h healthChecks) machineUnhealthy(m *clusterv1.Machine) bool {
	return slices.ContainsFunc(h.machines, func(c clusterv1.UnhealthyMachineCondition) bool {
		has := conditions.Get(m, c.Type)
		return has != nil && has.Status == c.Status
	})
}
