// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// autoscalerTaint is on a Node that the cluster autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// carryOutNode does one move of a Node: one write, on the Node as it is now. If the Node is gone, it does nothing.
func (r *Reconciler) carryOutNode(ctx context.Context, s *scope, move claims.Move) error {
	workload, node := s.way.Workload.Client(), &corev1.Node{}
	err := workload.Get(ctx, client.ObjectKey{Name: move.Node.Name}, node)
	if apierrors.IsNotFound(err) && move.Kind != claims.NameNode {
		return nil
	}
	if err != nil {
		return err
	}
	if string(node.UID) != move.Node.UID {
		return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it is another Node of that name"))
	}
	switch {
	case move.Kind == claims.DrainNode:
		return r.drainNode(ctx, s, workload, node)
	case move.Kind == claims.DeleteNode:
		ctrl.LoggerFrom(ctx).Info("Deleting the Node of a drained machine that the portal has removed", "Node", node.Name)
		return client.IgnoreNotFound(workload.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}))
	case move.Kind == claims.NameNode && node.Spec.ProviderID != "" && node.Spec.ProviderID != move.Node.ProviderID:
		return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it has another providerID"))
	}
	return changeNode(ctx, workload, node, move)
}

// changeNode writes the change of a move.
func changeNode(ctx context.Context, workload client.Client, node *corev1.Node, move claims.Move) error {
	return operation.Writer{Client: workload}.Change(ctx, node, func() { applyToNode(node, move, time.Now()) })
}

// applyToNode makes the change of a move.
func applyToNode(n *corev1.Node, move claims.Move, now time.Time) {
	stamp := now.UTC().Format(time.RFC3339)
	switch move.Kind {
	case claims.NameNode:
		n.Spec.ProviderID = move.Node.ProviderID
	case claims.DrainNode:
		n.Spec.Unschedulable = true
		delete(n.Annotations, infrav1.DrainedAnnotation)
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.DrainStartedAnnotation, stamp)
	case claims.MarkDrained:
		n.Spec.Unschedulable = true
		removeAutoscalerTaint(n) // otherwise an autoscaler that restarts would make the Node schedulable
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.DrainedAnnotation, stamp)
		delete(n.Annotations, infrav1.DrainStartedAnnotation)
	case claims.Uncordon:
		n.Spec.Unschedulable = false
		removeAutoscalerTaint(n)
		delete(n.Annotations, infrav1.DrainStartedAnnotation)
		delete(n.Annotations, infrav1.DrainedAnnotation)
	case claims.NoteDrainRules:
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.DrainRulesAnnotation, move.Node.DrainRules)
	case claims.MarkRemediated:
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.RemediatedAnnotation, stamp)
	case claims.ForgetRemediated:
		delete(n.Annotations, infrav1.RemediatedAnnotation)
	case claims.DisableScaleDown:
		disableScaleDown(n)
	case claims.EnableScaleDown:
		enableScaleDown(n)
	}
}

func removeAutoscalerTaint(n *corev1.Node) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
}

// evictTimeout bounds one step of a drain, so an API server that does not answer does not hold up other clusters.
const evictTimeout = 10 * time.Second

// drainNode takes one step of the provider's own drain: it cordons the Node, or evicts Pods, or records that none is left. Like
// core's, the drain ends after the Node's timeout, even if Pods are left.
func (r *Reconciler) drainNode(ctx context.Context, s *scope, workload client.Client, node *corev1.Node) error {
	started := timeIn(node, infrav1.DrainStartedAnnotation)
	if started.IsZero() || !node.Spec.Unschedulable {
		return changeNode(ctx, workload, node, claims.Move{Kind: claims.DrainNode})
	}
	if rules := s.desired.drainRules(node); !rules.Excluded {
		ctx, cancel := context.WithTimeout(ctx, evictTimeout)
		defer cancel()
		waits := drain.Step(ctx, r.Client, workload, s.Cluster, node, rules)
		if waits != "" && !rules.Expired(started) {
			s.drains[node.Name] = waits
			return nil
		}
	}
	return changeNode(ctx, workload, node, claims.Move{Kind: claims.MarkDrained})
}

// drainRules are those that the last Machine of the Node noted when it gave the Node up. A Node without a note follows the
// pool that lists it, or the MachineSet whose name core wrote on it.
func (d *desired) drainRules(n *corev1.Node) drain.Rules {
	if rules, found := drain.Parse(n.Annotations[infrav1.DrainRulesAnnotation]); found && !d.pool.lists(n) {
		return rules
	}
	if d.pool.lists(n) {
		template := d.pool.machinePool.Spec.Template
		return drain.RulesOf(template.Labels, template.Annotations, template.Spec.Deletion)
	}
	for _, set := range d.sets {
		if template := set.Spec.Template; set.Name == n.Annotations[clusterv1.OwnerNameAnnotation] {
			return drain.RulesOf(template.Labels, template.Annotations, template.Spec.Deletion)
		}
	}
	return drain.Rules{}
}
