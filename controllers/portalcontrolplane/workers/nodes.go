// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// autoscalerTaint is on a Node that the cluster autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// writeNode does one write of a Node, on the Node as it is now. If the Node is gone and no claim needs its providerID, it does nothing. It
// returns what a drain waits for, or "".
func (k Keeper) writeNode(
	ctx context.Context, cluster *clusterv1.Cluster, workload client.Client, members Members, w *claims.Write,
) (waits string, err error) {
	node, seen, want := &corev1.Node{}, w.Node.Seen, w.Node.Want
	err = workload.Get(ctx, client.ObjectKey{Name: seen.Name}, node)
	if apierrors.IsNotFound(err) && (w.Step != claims.WriteNode || want.ProviderID == seen.ProviderID) {
		w.Node.Want = seen
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if string(node.UID) != seen.UID {
		return "", apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it is another Node of that name"))
	}
	switch {
	case w.Step == claims.DrainNode:
		return k.drainNode(ctx, cluster, workload, node, members.drainRules(node), &w.Node.Want.DrainState)
	case w.Step == claims.DeleteNode:
		return "", client.IgnoreNotFound(workload.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}))
	case want.ProviderID != seen.ProviderID && node.Spec.ProviderID != "" && node.Spec.ProviderID != want.ProviderID:
		return "", apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it has another providerID"))
	}
	return "", persist.Writer{Client: workload}.Change(ctx, node, func() { applyToNode(node, seen, want) })
}

// applyToNode changes what differs.
func applyToNode(n *corev1.Node, seen, want claims.Node) {
	if want.ProviderID != seen.ProviderID {
		n.Spec.ProviderID = want.ProviderID
	}
	if want.DrainState != seen.DrainState {
		setDrainState(n, want.DrainState)
	}
	if want.DrainRules != seen.DrainRules {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.DrainRulesAnnotation, want.DrainRules)
	}
	if want.BatchNoted != seen.BatchNoted {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.BatchAnnotation, want.BatchNoted)
	}
	switch {
	case want.ScaleDownDisabled == seen.ScaleDownDisabled:
	case want.ScaleDownDisabled:
		disableScaleDown(n)
	default:
		enableScaleDown(n)
	}
}

// setDrainState cordons the Node, or makes it schedulable, and records how far its drain is. A drain that begins, ends or is undone waits for no
// volumes. An autoscaler that restarts would make a Node with its taint schedulable.
func setDrainState(n *corev1.Node, state claims.DrainState) {
	n.Spec.Unschedulable = state.Cordoned
	if !state.TaintedByAutoscaler {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
	}
	delete(n.Annotations, infrav1.VolumeDetachStartedAnnotation)
	setTime(n, infrav1.DrainStartedAnnotation, state.DrainStarted)
	setTime(n, infrav1.DrainedAnnotation, state.Drained)
}

// setTime writes the time into an annotation, or removes the annotation if the time is zero.
func setTime(n *corev1.Node, annotation string, t time.Time) {
	if t.IsZero() {
		delete(n.Annotations, annotation)
		return
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, annotation, t.UTC().Format(time.RFC3339))
}

// evictTimeout bounds one step of a drain, so an API server that does not answer does not hold up other clusters.
const evictTimeout = 10 * time.Second

// drainNode takes one step of the provider's own drain: it cordons the Node, or evicts Pods, or waits until volumes are detached, or records
// that neither is left. Like core's, each of the two waits ends after its timeout. state becomes what was written.
func (k Keeper) drainNode(
	ctx context.Context, cluster *clusterv1.Cluster, workload client.Client, node *corev1.Node, rules drain.Rules, state *claims.DrainState,
) (waits string, err error) {
	writer := persist.Writer{Client: workload}
	write := func(next claims.DrainState) error {
		*state = next
		return writer.Change(ctx, node, func() { setDrainState(node, next) })
	}
	started := timeIn(node, infrav1.DrainStartedAnnotation)
	if started.IsZero() || !node.Spec.Unschedulable {
		return "", write(claims.DrainState{Cordoned: true, TaintedByAutoscaler: tainted(node, autoscalerTaint), DrainStarted: time.Now()})
	}
	limited, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	if !rules.Excluded {
		if waits := drain.Step(limited, k.Client, workload, cluster, node, rules); waits != "" && !rules.Expired(started) {
			return waits, nil
		}
	}
	detaching := timeIn(node, infrav1.VolumeDetachStartedAnnotation)
	if !rules.VolumesExcluded && !rules.VolumesExpired(detaching) {
		waits = drain.Volumes(limited, k.Client, workload, cluster, node, rules)
	}
	switch {
	case waits == "":
		return "", write(claims.DrainState{Cordoned: true, Drained: time.Now()})
	case detaching.IsZero():
		return waits, writer.Change(ctx, node, func() { setTime(node, infrav1.VolumeDetachStartedAnnotation, time.Now()) })
	}
	return waits, nil
}

// drainRules are those that the last Machine of the Node noted when it gave the Node up. A Node without a note follows the
// pool that lists it, or the MachineSet whose name core wrote on it.
func (all Members) drainRules(n *corev1.Node) drain.Rules {
	if rules, found := drain.Parse(n.Annotations[infrav1.DrainRulesAnnotation]); found && !all.pool.lists(n) {
		return rules
	}
	if all.pool.lists(n) {
		template := all.pool.machinePool.Spec.Template
		return drain.RulesOf(template.Labels, template.Annotations, template.Spec.Deletion)
	}
	for _, set := range all.sets {
		if template := set.Spec.Template; set.Name == n.Annotations[clusterv1.OwnerNameAnnotation] {
			return drain.RulesOf(template.Labels, template.Annotations, template.Spec.Deletion)
		}
	}
	return drain.Rules{}
}
