// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// activityOf returns what the operation in flight does to nodes.
func activityOf(op *operation.Operation) claims.Activity {
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

// nodesBefore returns the worker nodes that existed before the last scale, and whether that was a scale-down that succeeded.
func nodesBefore(last *operation.Operation) (before []removal.NodeSnapshot, finished bool) {
	if !last.Is(operation.Scale) {
		return nil, false
	}
	return last.Before, last.RemovesNodes() && last.Result == operation.Succeeded
}

// endOf returns when this manager first saw that the last operation has ended, if that is a scale-down that the portal accepted, or zero.
func (m *Memory) endOf(last *operation.Operation) time.Time {
	if !last.Is(operation.Scale) || !last.RemovesNodes() || last.InFlight() || last.Result == operation.Refused {
		return time.Time{}
	}
	if m.endedAt.IsZero() || m.ended != last.ID {
		m.ended, m.endedAt = last.ID, time.Now()
	}
	return m.endedAt
}

// viewOf returns the view of a plan, without Machines, Nodes and the pool.
func viewOf(p *pass.Pass, d Desired) claims.View {
	order := ExpectedOrder(p)
	view := claims.View{
		ClusterID:     p.ControlPlane.Spec.ClusterID,
		Desired:       d.sum,
		Unasked:       d.objects == 0,
		Size:          p.Record.Size,
		SizeUncertain: p.Record.SizeUncertain,
		Order:         removal.Order(order.Order),
		OrderAssumed:  order.Source == infrav1.RemovalOrderAssumed,
		Evidence:      p.Record.RemovalOrder,
		DrainPossible: p.ControlPlane.Spec.DrainBeforeScaleDown == infrav1.DrainPossible,
		Activity:      activityOf(p.Op()),
		Adopted:       adopted(p),
		Autoscaled:    d.autoscaled,
		Now:           time.Now(),
	}
	view.Before, view.ScaledDown = nodesBefore(p.Last)
	if op := p.Op(); op.Is(operation.Scale) {
		view.Target, view.AnswerLost, view.MayResend = op.Size(), op.Lost(), op.Lost() && op.ResendIn() == 0
	}
	return view
}

// machineViews returns the Machines for a plan. recorded is what the portal cluster was created with, if that is known.
func machineViews(members Members, recorded *infrav1.WorkerParameters) []claims.Machine {
	byName := map[string]infrav1.PortalMachine{}
	for _, pm := range members.portalMachines {
		byName[pm.Name] = pm
	}
	var views []claims.Machine
	for _, m := range members.Machines {
		pm, found := byName[m.Spec.InfrastructureRef.Name]
		if !found && m.DeletionTimestamp.IsZero() {
			continue // core is still creating it
		}
		view := machineView(m, pm)
		if !found {
			// The PortalMachine was deleted by hand, but the Machine still has the Node.
			view.Claim.ProviderID, view.PortalMachineDeleted = view.ProviderID, true
		}
		view.TemplateMismatch = found && recorded != nil && pm.Spec.WorkerParameters != *recorded
		views = append(views, view)
	}
	return views
}

func machineView(m clusterv1.Machine, pm infrav1.PortalMachine) claims.Machine {
	deleting, rules := conditions.GetReason(&m, clusterv1.MachineDeletingCondition), drain.RulesOf(m.Labels, m.Annotations, m.Spec.Deletion)
	view := claims.Machine{
		Name:                 m.Name,
		Created:              m.CreationTimestamp.Time,
		Owner:                ownerOf(&m),
		Outdated:             conditions.GetReason(&m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason,
		DeleteFirst:          metav1.HasAnnotation(m.ObjectMeta, clusterv1.DeleteMachineAnnotation),
		Deleting:             !m.DeletionTimestamp.IsZero() || !pm.DeletionTimestamp.IsZero(),
		PreDrain:             metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook),
		PreTerminate:         metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook),
		AtPreTerminate:       deleting == clusterv1.MachineDeletingWaitingForPreTerminateHookReason && len(othersHooks(&m)) == 0,
		DrainRules:           rules.String(),
		Claim:                claims.NodeID{ProviderID: pm.Spec.ProviderID},
		PortalMachineDeleted: !pm.DeletionTimestamp.IsZero(),
		ProviderID:           m.Spec.ProviderID,
		NodeRef:              m.Status.NodeRef.Name,
	}
	// Core skips the drain of a Machine whose PortalMachine is being deleted.
	view.DrainSkipped = view.AtPreTerminate && !rules.Excluded && (m.Status.Deletion == nil || m.Status.Deletion.NodeDrainStartTime.IsZero())
	if pm.Spec.Node != nil {
		view.Claim.Name, view.Claim.UID = pm.Spec.Node.Name, pm.Spec.Node.UID
	}
	return view
}

// othersHooks returns the pre-terminate hooks of other controllers, sorted. Core waits for theirs as it waits for ours, and each of them may
// still have work to do on the Node.
func othersHooks(m *clusterv1.Machine) (hooks []string) {
	for key := range m.Annotations {
		if strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) && key != infrav1.PreTerminateHook {
			hooks = append(hooks, key)
		}
	}
	slices.Sort(hooks)
	return hooks
}

// nodeViews returns the worker Nodes for a plan. pinned are those with Pods that must not be evicted, if the cluster is autoscaled.
// positions are those in the portal's list of instances, as far as they are known. The clock of the API server is behind the manager's by
// that much.
func nodeViews(workers []corev1.Node, pinned map[string]bool, positions map[string]int, clockBehind time.Duration) []claims.Node {
	var views []claims.Node
	for i := range workers {
		n := &workers[i]
		view := claims.Node{
			NodeID: claims.NodeID{Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID}, Created: n.CreationTimestamp.Time,
			Ready: util.IsNodeReady(n), NotReadySince: notReadySince(n, clockBehind),
			LastOwner: n.Annotations[clusterv1.OwnerNameAnnotation], Uninitialized: tainted(n, uninitializedTaint),
			DrainState: claims.DrainState{
				Cordoned: n.Spec.Unschedulable, TaintedByAutoscaler: tainted(n, autoscalerTaint),
				DrainStarted: timeIn(n, infrav1.DrainStartedAnnotation), Drained: timeIn(n, infrav1.DrainedAnnotation),
			},
			BatchNoted:        n.Annotations[infrav1.BatchAnnotation],
			Position:          positions[n.Name],
			DrainRules:        n.Annotations[infrav1.DrainRulesAnnotation],
			ScaleDownDisabled: metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation),
		}
		view.ScaleDownSetByUser = setByUser(n)
		view.Pinned = pinned[n.Name] || view.ScaleDownSetByUser && n.Annotations[scaleDownDisabled] == "true"
		views = append(views, view)
	}
	return views
}

// noteOrigins replaces the MachineSet that last held each Node, whose name core writes on the Node, by the owner of its Machines, and adds the
// batch of the Node. The last scale or upgrade made the Nodes that are younger than those before it.
func noteOrigins(nodes []claims.Node, machines []clusterv1.Machine, last *operation.Operation) {
	owners := map[string]string{}
	for i := range machines {
		owners[machines[i].Labels[clusterv1.MachineSetNameLabel]] = ownerOf(&machines[i])
	}
	delete(owners, "") // of Machines without a MachineSet, which core does not name on a Node
	id, older := "", []removal.NodeSnapshot(nil)
	if last.Is(operation.Scale) || last.Is(operation.Upgrade) {
		id, older = last.ID, last.Before
	}
	for i := range nodes {
		n := &nodes[i]
		n.LastOwner = cmp.Or(owners[n.LastOwner], n.LastOwner)
		n.Batch = removal.MadeBy(removal.NodeSnapshot{UID: n.UID, Created: n.Created.Unix(), Batch: n.BatchNoted}, id, older)
	}
}

// ownerOf returns the name of the MachineDeployment or MachineSet that the Machine belongs to. No name has a slash.
func ownerOf(m *clusterv1.Machine) string {
	return cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.MachineSetNameLabel], "/"+m.Name)
}

// notReadySince returns when the Node was last Ready by the manager's clock, or zero if it is Ready or the time is unknown. Where
// the workload cluster's clock is behind, a Node that is away for a moment would count as lost, and be removed with its Pods.
func notReadySince(n *corev1.Node, clockBehind time.Duration) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Add(clockBehind)
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
