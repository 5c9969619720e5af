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
	"k8s.io/utils/ptr"
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
	workload, err := r.ClusterCache.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	err = workload.Get(ctx, client.ObjectKey{Name: move.Node.Name}, node)
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

// drainNode takes one step of the provider's own drain: it cordons the Node, or evicts some Pods, or records that none is left.
// After the MachineDeployment's nodeDrainTimeoutSeconds, the drain ends even if Pods are left, like core's.
func (r *Reconciler) drainNode(ctx context.Context, s *scope, workload client.Client, node *corev1.Node) error {
	started := timeIn(node, infrav1.DrainStartedAnnotation)
	if started.IsZero() || !node.Spec.Unschedulable {
		return changeNode(ctx, workload, node, claims.Move{Kind: claims.DrainNode})
	}
	ctx, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	progress, err := r.Drain(ctx, s.clusterKey(), node.Name)
	timeout := s.desired.drainTimeout(node)
	expired := timeout > 0 && time.Since(started) >= timeout // then it does not matter why Pods are left, like in core
	if err != nil && !expired {
		return err
	}
	if progress.Left > 0 && !expired {
		if s.drains == nil {
			s.drains = map[string]drain.Progress{}
		}
		s.drains[node.Name] = progress
		return nil
	}
	return changeNode(ctx, workload, node, claims.Move{Kind: claims.MarkDrained})
}

// drainTimeout is how long a drain of the Node may take, according to the pool, or to the MachineDeployment that held it last. 0
// means forever.
func (d *desired) drainTimeout(n *corev1.Node) time.Duration {
	if d.pool.lists(n) {
		return d.pool.drainTimeout()
	}
	set := n.Annotations[clusterv1.OwnerNameAnnotation]
	for _, m := range d.sets {
		if m.Name == set {
			return time.Duration(ptr.Deref(m.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds, 0)) * time.Second
		}
	}
	return 0
}
