// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// controlMarks are the labels and taints of control nodes. The specification defines neither, so either is enough.
var controlMarks = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// isControlNode reports whether a Node has a mark of control nodes: the label, or the taint with any effect.
func isControlNode(n corev1.Node) bool {
	return slices.ContainsFunc(controlMarks, func(mark string) bool {
		_, labelled := n.Labels[mark]
		return labelled || tainted(&n, mark)
	})
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// lister lists Nodes: those that a watch keeps, or those of the API server.
type lister interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
}

// listNodes lists the Nodes without a mark of control nodes, and those with one.
func listNodes(ctx context.Context, workload lister) (unmarked, control []corev1.Node, err error) {
	list := &corev1.NodeList{}
	if err := workload.List(ctx, list); err != nil {
		return nil, nil, err
	}
	for _, n := range list.Items {
		if isControlNode(n) {
			control = append(control, n)
		} else {
			unmarked = append(unmarked, n)
		}
	}
	slices.SortFunc(unmarked, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return unmarked, control, nil
}

// readWorkers reads the worker Nodes into the scope: those without a mark that the selector, if set, selects. It keeps the
// providerIDs of the other Nodes.
func (s *scope) readWorkers(ctx context.Context, workload lister) error {
	unmarked, control, err := listNodes(ctx, workload)
	if err != nil {
		return err
	}
	selector := labels.Everything()
	if chosen := s.ControlPlane.Spec.WorkerNodeSelector; chosen != nil {
		if selector, err = metav1.LabelSelectorAsSelector(chosen); err != nil {
			selector = labels.Nothing() // recognized reports the mistake
		}
	}
	s.unmarked, s.controlNodes, s.nodes, s.otherIDs, s.nodeUIDs = len(unmarked), len(control), nil, nil, nil
	for _, n := range slices.Concat(unmarked, control) {
		s.nodeUIDs = append(s.nodeUIDs, n.UID)
	}
	for _, n := range unmarked {
		if selector.Matches(labels.Set(n.Labels)) {
			s.nodes = append(s.nodes, n)
		} else {
			control = append(control, n)
		}
	}
	for _, n := range control {
		s.otherIDs = append(s.otherIDs, n.Spec.ProviderID)
	}
	return nil
}

// planRecognized makes the plan. It is done if the plan can be trusted.
func (r *Reconciler) planRecognized(ctx context.Context, s *scope) outcome.Outcome {
	s.clockBehind = s.way.Workload.ClockBehind()
	if err := r.makePlan(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	if len(s.plan.Writes) > 0 || s.plan.Scale {
		if o := r.namespaceStays(ctx, s); !o.IsDone() {
			return o
		}
	}
	return s.recognized()
}

// namespaceStays is done unless the namespace is being deleted. Its MachineDeployments and Machines are then deleted in any
// order, but a protected Cluster stays, and no user has asked for fewer workers.
func (r *Reconciler) namespaceStays(ctx context.Context, s *scope) outcome.Outcome {
	namespace := &corev1.Namespace{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: s.Cluster.Namespace}, namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return outcome.Fail(fmt.Errorf("read Namespace %s: %w", s.Cluster.Namespace, err))
	case namespace.DeletionTimestamp.IsZero():
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.DeletingReason, "Namespace %s is being deleted, but the Cluster is not, so its worker nodes stay as they "+
		"are. Remove the Cluster's protection against deletion, then delete the Cluster", namespace.Name)
}

// recognized is done if worker Nodes can be distinguished from control nodes. A Machine on a control node would cause its drain.
func (s *scope) recognized() outcome.Outcome {
	hold := func(format string, args ...any) outcome.Outcome {
		return outcome.StallFor(0, infrav1.WorkersUnrecognizedReason, format, args...)
	}
	if selector := s.ControlPlane.Spec.WorkerNodeSelector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return hold("spec.workerNodeSelector is not a valid label selector: %v. Correct it", err)
		}
		if len(s.nodes) == 0 && s.unmarked > 0 && s.Record.Size > 0 {
			return hold("spec.workerNodeSelector selects none of %d Nodes. Correct it, or label the Nodes of the workers", s.unmarked)
		}
		return outcome.Outcome{}
	}
	// The number of worker Nodes is only known right after the creation. Later a person may have added some.
	fresh := s.Last.Is(operation.Create) && s.controlNodes == 0 && !s.bound
	control := int(ptr.Deref(s.ControlPlane.Spec.Replicas, 1))
	if fresh && s.unmarked > s.Record.Size && s.unmarked <= s.Record.Size+control {
		return hold("%d Nodes exist and %d are workers, and none is marked as a control node. Set spec.workerNodeSelector to a selector of the "+
			"workers' labels, or put the label or the taint %s on the control nodes", s.unmarked, s.Record.Size, controlMarks[0])
	}
	return outcome.Outcome{}
}
