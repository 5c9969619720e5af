// SPDX-License-Identifier: Apache-2.0

package workers

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
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
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

// Nodes are the Nodes of a workload cluster.
type Nodes struct {
	Workers []corev1.Node // sorted by name
	others  []corev1.Node // control nodes, and those that spec.workerNodeSelector does not select
}

// ReadNodes reads the Nodes. Workers are those without a mark of control nodes that the selector, if there is one, selects.
func ReadNodes(ctx context.Context, from lister, chosen *metav1.LabelSelector) (nodes Nodes, err error) {
	selector := labels.Everything()
	if chosen != nil {
		if selector, err = metav1.LabelSelectorAsSelector(chosen); err != nil {
			selector = labels.Nothing() // recognized reports the mistake
		}
	}
	list := &corev1.NodeList{}
	if err := from.List(ctx, list); err != nil {
		return Nodes{}, fmt.Errorf("list Nodes: %w", err)
	}
	for _, n := range list.Items {
		if !isControlNode(n) && selector.Matches(labels.Set(n.Labels)) {
			nodes.Workers = append(nodes.Workers, n)
		} else {
			nodes.others = append(nodes.others, n)
		}
	}
	slices.SortFunc(nodes.Workers, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}

// controls counts the Nodes with a mark of control nodes, and unmarked those without.
func (all Nodes) controls() (controls, unmarked int) {
	for _, n := range all.others {
		if isControlNode(n) {
			controls++
		}
	}
	return controls, len(all.Workers) + len(all.others) - controls
}

// gone reports whether the Node of a nodeRef does not exist any more. Another Node may have its name.
func (all Nodes) gone(ref corev1.ObjectReference) bool {
	return !slices.ContainsFunc(slices.Concat(all.Workers, all.others), func(n corev1.Node) bool { return n.UID == ref.UID })
}

// recognized is done if worker Nodes can be distinguished from control nodes. A Machine on a control node would cause its drain.
func (d *decision) recognized(p *pass.Pass) outcome.Outcome {
	hold := func(format string, args ...any) outcome.Outcome {
		return outcome.StallFor(0, infrav1.WorkersUnrecognizedReason, format, args...)
	}
	controls, unmarked := d.nodes.controls()
	if selector := p.ControlPlane.Spec.WorkerNodeSelector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return hold("spec.workerNodeSelector is not a valid label selector: %v. Correct it", err)
		}
		if len(d.nodes.Workers) == 0 && unmarked > 0 && p.Record.Size > 0 {
			return hold("spec.workerNodeSelector selects none of %s. Correct it, or label the Nodes of the workers", outcome.Count(unmarked, "Node"))
		}
		return outcome.Outcome{}
	}
	// The number of worker Nodes is only known right after the creation. Later a person may have added some.
	bound := slices.ContainsFunc(d.members.portalMachines, func(m infrav1.PortalMachine) bool { return m.Spec.ProviderID != "" })
	fresh := p.Last.Is(operation.Create) && controls == 0 && !bound
	expected := int(ptr.Deref(p.ControlPlane.Spec.Replicas, 1))
	if fresh && unmarked > p.Record.Size && unmarked <= p.Record.Size+expected {
		return hold("%d Nodes exist and %d are workers, and none is marked as a control node. Set spec.workerNodeSelector to a selector of the "+
			"workers' labels, or put the label or the taint %s on the control nodes", unmarked, p.Record.Size, controlMarks[0])
	}
	return outcome.Outcome{}
}
