// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileConnection reads Nodes and version of the workload cluster, and watches its Nodes.
func (r *Reconciler) reconcileConnection(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.KubeconfigReadyCondition) {
		return outcome.BlockedBy(infrav1.WaitingForPortalClusterReason, "see condition KubeconfigReady")
	}
	workload, err := r.ClusterCache.GetClient(ctx, s.clusterKey())
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return outcome.WaitFor(0, infrav1.ConnectionDownReason, "the API server at %s does not answer yet, or not any more",
			s.controlPlane.Spec.ControlPlaneEndpoint.String())
	}
	if err != nil {
		return outcome.Fail(err)
	}
	if err := r.watchNodes(ctx, s); err != nil {
		return outcome.Fail(fmt.Errorf("watch Nodes: %w", err))
	}
	if s.running, err = r.serverVersion(ctx, s); err != nil {
		return outcome.WaitFor(connectionRetry, infrav1.ConnectionDownReason, "the API server at %s does not tell its version",
			s.controlPlane.Spec.ControlPlaneEndpoint.String())
	}
	if s.nodes, err = workers(ctx, workload); err != nil {
		return outcome.Fail(fmt.Errorf("list Nodes: %w", err))
	}
	s.workload = workload
	return outcome.DoneBecause(infrav1.ConnectedReason, "")
}

// serverVersion asks the API server which version it runs.
func (r *Reconciler) serverVersion(ctx context.Context, s *scope) (string, error) {
	config, err := r.ClusterCache.GetRESTConfig(ctx, s.clusterKey())
	if err != nil {
		return "", err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	version, err := d.ServerVersion()
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// workers lists the worker Nodes: those without a control-plane role label.
func workers(ctx context.Context, workload client.Reader) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := workload.List(ctx, list); err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(list.Items, isControlNode)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

func isControlNode(n corev1.Node) bool {
	_, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]
	_, master := n.Labels["node-role.kubernetes.io/master"]
	return controlPlane || master
}

type nodePredicate = predicate.TypedPredicate[client.Object]

// nodeChanged lets only those changes of a Node through that a plan depends on, not its heartbeats.
var nodeChanged nodePredicate = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		if !ok || !ok2 {
			return false
		}
		return before.Spec.ProviderID != after.Spec.ProviderID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			isControlNode(*before) != isControlNode(*after) || !maps.Equal(annotationsOf(before), annotationsOf(after)) ||
			before.Status.NodeInfo.KubeletVersion != after.Status.NodeInfo.KubeletVersion || !maps.Equal(conditionsOf(before), conditionsOf(after))
	},
}

// annotationsOf returns the annotations of the Node that a plan depends on.
func annotationsOf(n *corev1.Node) map[string]string {
	all := map[string]string{}
	for _, key := range []string{
		infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.RemediatedAnnotation, infrav1.ScaleDownDisabledAnnotation,
		scaleDownDisabled, clusterv1.OwnerNameAnnotation,
	} {
		if value, found := n.Annotations[key]; found {
			all[key] = value
		}
	}
	return all
}

// conditionsOf returns the status of each condition of the Node, without its heartbeat.
func conditionsOf(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	all := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		all[c.Type] = c.Status
	}
	return all
}
