// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// nodesTimeout is how long a pass waits for the first list of Nodes. Their events wake the control plane when it arrives.
const nodesTimeout = 2 * time.Second

// TrimNode returns the parts of a Node that this package reads. Before a Node is changed, it is read from the API server, so no write is based
// on a trimmed Node.
func TrimNode(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp,
			DeletionTimestamp: n.DeletionTimestamp, Labels: n.Labels, Annotations: annotationsOf(n),
		},
		Spec: corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: keptTaints(n)},
		Status: corev1.NodeStatus{
			Capacity: n.Status.Capacity, Conditions: keptConditions(n),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: n.Status.NodeInfo.KubeletVersion, Architecture: n.Status.NodeInfo.Architecture,
				OperatingSystem: n.Status.NodeInfo.OperatingSystem,
			},
		},
	}
}

// uninitializedTaint is on a Node that the portal's cloud controller has not initialized yet.
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

func keptTaints(n *corev1.Node) (kept []corev1.Taint) {
	for _, key := range append(slices.Clone(controlMarks), autoscalerTaint, uninitializedTaint) {
		if tainted(n, key) {
			kept = append(kept, corev1.Taint{Key: key})
		}
	}
	return kept
}

func keptConditions(n *corev1.Node) (kept []corev1.NodeCondition) {
	for _, c := range n.Status.Conditions {
		kept = append(kept, corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	return kept
}

// WatchedNodes returns the Nodes that the watch keeps. It is not done if no list has arrived, or if there are more Nodes than are read.
func WatchedNodes(ctx context.Context, p *pass.Pass, way access.Way) (Nodes, outcome.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	nodes, err := ReadNodes(ctx, way.Connection, p.ControlPlane.Spec.WorkerNodeSelector)
	switch {
	case errors.Is(err, workload.ErrOversized):
		return Nodes{}, outcome.StallFor(access.Retry, infrav1.TooManyNodesReason, "the API server at %s returns more than %d Nodes, or more than %d MiB, so "+
			"the workers stay as they are. Delete the Nodes that have no machine, or remove workers at the portal", p.Endpoint(),
			workload.MaxObjects, workload.MaxNodeList>>20)
	case err != nil && ctx.Err() != nil:
		return Nodes{}, outcome.WaitFor(access.Retry, infrav1.ConnectionDownReason, "the API server at %s does not return its Nodes. The provider tries again", p.Endpoint())
	case err != nil:
		return Nodes{}, outcome.Fail(err)
	}
	return nodes, outcome.Outcome{}
}

// annotationsOf returns the annotations of the Node that a plan depends on.
func annotationsOf(n *corev1.Node) map[string]string {
	all := map[string]string{}
	for _, key := range []string{
		infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.ScaleDownDisabledAnnotation,
		infrav1.DrainRulesAnnotation, infrav1.BatchAnnotation, scaleDownDisabled, clusterv1.OwnerNameAnnotation,
	} {
		if value, found := n.Annotations[key]; found {
			all[key] = value
		}
	}
	return all
}
