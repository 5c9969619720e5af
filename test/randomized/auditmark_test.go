// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"fmt"
	"slices"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// The judges of this file check what our manager itself does to Nodes. It drains Nodes that no Machine holds, keeps drained
// Nodes cordoned until the portal removes them, and hides Nodes from the cluster autoscaler.

// scaleDownDisabled is the cluster autoscaler's own annotation. Users write it too.
const scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

// marks are the annotations on Nodes that only our manager writes.
var marks = []string{
	infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.RemediatedAnnotation, infrav1.ScaleDownDisabledAnnotation,
}

// hold is a period during which a Machine held a Node and was not being deleted.
type hold struct {
	machine, node string
	from, to      time.Time // to is zero while the Machine holds the Node
}

// holdWritten notes which Machine holds which Node.
func (a *auditor) holdWritten(e auditEvent, now auditObject) {
	node := now.Status.NodeRef.Name
	if now.Metadata.DeletionTimestamp != nil {
		node = ""
	}
	for i := range a.holds {
		if h := &a.holds[i]; h.machine == now.Metadata.Name && h.to.IsZero() {
			if h.node == node {
				return
			}
			h.to = e.Ended
		}
	}
	if node != "" {
		a.holds = append(a.holds, hold{machine: now.Metadata.Name, node: node, from: e.Received})
	}
}

// holder returns the Machine that held the Node at that time and for at least passes longer, or "".
func (a *auditor) holder(node string, at time.Time) string {
	i := slices.IndexFunc(a.holds, func(h hold) bool {
		return h.node == node && h.from.Before(at) && !h.from.Before(a.born[node]) && (h.to.IsZero() || h.to.After(at.Add(passes)))
	})
	if i < 0 {
		return ""
	}
	return a.holds[i].machine
}

// marksWritten checks that only our manager writes marks, that a drained Node stays cordoned, and that our manager does not
// change a user's annotation. It notes which drains of our manager begin and end.
func (a *auditor) marksWritten(e auditEvent, before, now auditObject) {
	name, was, is := now.Metadata.Name, before.Metadata.Annotations, now.Metadata.Annotations
	by := a.author(e, provider, "annotations")
	for _, mark := range marks {
		if was[mark] != is[mark] && by.who() != provider {
			a.report("%s %s has changed %s of Node %s from %q to %q", clock(e), by.who(), mark, name, was[mark], is[mark])
		}
	}
	mine := was[infrav1.ScaleDownDisabledAnnotation]+is[infrav1.ScaleDownDisabledAnnotation] != ""
	if was[scaleDownDisabled] != is[scaleDownDisabled] && by.who() == provider && !mine {
		a.report("%s the provider has changed %s of Node %s, which the user had set, from %q to %q", clock(e), scaleDownDisabled, name, was[scaleDownDisabled], is[scaleDownDisabled])
	}
	if is[infrav1.DrainedAnnotation] != "" && !now.Spec.Unschedulable {
		a.report("%s Node %s is marked as drained, and %s left it schedulable", clock(e), name, e.who())
	}
	switch started := is[infrav1.DrainStartedAnnotation] != ""; {
	case started && was[infrav1.DrainStartedAnnotation] == "":
		a.ours = append(a.ours, &drain{node: name, from: by.Received, surplus: a.books.surplus(by.Received)})
		if machine := a.holder(name, by.Received); machine != "" {
			a.report("%s the provider has begun to drain Node %s, which Machine %s holds", clock(e), name, machine)
		}
	case !started && was[infrav1.DrainStartedAnnotation] != "":
		for _, d := range a.ours {
			if d.node == name && d.to.IsZero() {
				d.to = e.Ended
			}
		}
	}
}

// nodeDeleted checks that other clients than the portal delete a Node only after the portal's request log has the removal of its
// machine. Our manager may delete it only if it was also marked as drained.
func (a *auditor) nodeDeleted(e auditEvent) {
	name := e.On.Name
	born, known := a.born[name]
	drained := a.nodes[name].Metadata.Annotations[infrav1.DrainedAnnotation] != ""
	switch {
	case e.who() == portal:
	case !known || !a.books.removed(name, born, e.Received):
		a.report("%s %s has deleted Node %q, and the portal still ran its machine", clock(e), e.who(), name)
	case e.who() == provider && !drained:
		a.report("%s the provider has deleted Node %q, which was not marked as drained", clock(e), name)
	}
	delete(a.born, name)
	delete(a.nodes, name)
}

// belongs checks that a cordon or an eviction is part of a drain of the same manager, core's or ours, that began with
// a surplus. It does not matter whether the API server accepted the request.
func (a *auditor) belongs(what, node string, e auditEvent) {
	drains := a.drains
	switch e.who() {
	case core:
	case provider:
		drains = a.ours
	default:
		a.report("%s %s is by %s", clock(e), what, e.who())
	}
	if why := a.baseless(drains, node, e); why != "" {
		a.report("%s %s on Node %q: %s", clock(e), what, node, why)
	}
}

// baseless returns why the event is not part of one of the drains, or "" if it is.
func (a *auditor) baseless(drains []*drain, node string, e auditEvent) string {
	for _, d := range slices.Backward(drains) {
		switch {
		case d.node != node || d.from.After(e.Ended) || d.from.Before(a.born[node]):
			continue
		case !d.to.IsZero() && d.to.Add(passes).Before(e.Received):
			return "its drain was over"
		case !d.surplus:
			return "its drain had begun without a surplus"
		}
		return ""
	}
	return "no drain of it had begun"
}

// markedNode returns the answer to a write to Node c-w-1 after which the Node has these annotations.
func markedNode(version int, cordoned bool, annotations ...string) string {
	text := ""
	for i, annotation := range annotations {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf("%q:%q", annotation, "2026-07-01T12:00:00Z")
	}
	return fmt.Sprintf(`{"kind":"Node","metadata":{"name":"c-w-1","resourceVersion":"%d","annotations":{%s}},"spec":{"unschedulable":%t}}`,
		version, text, cordoned)
}

// released takes Node c-w-1 from Machine m1. Our manager drains only Nodes without a Machine.
var released = line(2.5, ours, "patch", "machines/status m1", machine(3, "", both))

// drainedByUs is a complete drain by our manager, with one eviction.
var drainedByUs = line(3, ours, "patch", "nodes c-w-1", markedNode(3, true, infrav1.DrainStartedAnnotation)) +
	line(4, ours, "create", "pods/eviction p", evicted) +
	line(5, ours, "patch", "nodes c-w-1", markedNode(4, true, infrav1.DrainedAnnotation))

var markCases = []auditCase{
	{name: "we drain a node", size: 3, management: released, workload: drainedByUs},
	{name: "we drain a node without a surplus", size: 2, management: released, workload: line(3, ours, "patch", "nodes c-w-1", markedNode(3, true, infrav1.DrainStartedAnnotation)),
		want: "the cordon of Node c-w-1 on Node \"c-w-1\": its drain had begun without a surplus"},
	{name: "we mark first and cordon then", size: 3, management: released, workload: line(3, ours, "patch", "nodes c-w-1", markedNode(3, false, infrav1.DrainStartedAnnotation)) +
		line(4, ours, "patch", "nodes c-w-1", markedNode(4, true, infrav1.DrainStartedAnnotation))},
	{name: "we cordon without a mark", size: 3, management: released, workload: line(3, ours, "patch", "nodes c-w-1", markedNode(3, true)),
		want: "no drain of it had begun"},
	{name: "we evict without a drain", size: 3, management: released, workload: line(3, ours, "create", "pods/eviction p", evicted), want: "no drain of it had begun"},
	{name: "we evict long after a drain", size: 3, management: released, workload: drainedByUs + line(30, ours, "create", "pods/eviction p", evicted), want: "its drain was over"},
	{name: "we drain a node that a Machine holds", size: 3, workload: drainedByUs, want: "has begun to drain Node c-w-1, which Machine m1 holds"},
	{name: "core evicts in a drain of ours", size: 3, management: released, workload: drainedByUs + line(6, cores, "create", "pods/eviction p", evicted),
		want: "no drain of it had begun"},
	{name: "somebody marks a node", size: 3, management: released, workload: line(3, kubes, "patch", "nodes c-w-1", markedNode(3, false, infrav1.RemediatedAnnotation)),
		want: "kubectl has changed infrastructure.cluster.x-k8s.io/remediated of Node c-w-1"},
	{name: "somebody makes a drained node schedulable", size: 3, management: released,
		workload: drainedByUs + line(6, kubes, "patch", "nodes c-w-1", markedNode(5, false, infrav1.DrainedAnnotation)), want: "is marked as drained, and kubectl left it schedulable"},
	{name: "we make a drained node schedulable", size: 3, management: released, workload: drainedByUs + line(6, ours, "patch", "nodes c-w-1", markedNode(5, false))},
	{name: "we delete what is left of a drained node", size: 3, management: released, workload: drainedByUs + line(8, ours, "delete", "nodes c-w-1", deleted),
		entries: []emulator.LogEntry{{Time: at(7), Object: "node", ID: "c-w-1", To: "removed"}}},
	{name: "we delete a drained node that the portal runs", size: 3, management: released, workload: drainedByUs + line(8, ours, "delete", "nodes c-w-1", deleted),
		want: `provider has deleted Node "c-w-1", and the portal still ran its machine`},
	{name: "we delete a node that was not drained", size: 3, management: released, workload: line(8, ours, "delete", "nodes c-w-1", deleted),
		entries: []emulator.LogEntry{{Time: at(7), Object: "node", ID: "c-w-1", To: "removed"}}, want: "which was not marked as drained"},
	{name: "we hide a node from the autoscaler and show it again", workload: line(3, ours, "patch", "nodes c-w-1", markedNode(3, false, scaleDownDisabled, infrav1.ScaleDownDisabledAnnotation)) +
		line(4, ours, "patch", "nodes c-w-1", markedNode(4, false))},
	{name: "we show a node that the user hid", workload: line(3, kubes, "patch", "nodes c-w-1", markedNode(3, false, scaleDownDisabled)) + line(4, ours, "patch", "nodes c-w-1", markedNode(4, false)),
		want: "which the user had set"},
	{name: "the user shows a node", workload: line(3, kubes, "patch", "nodes c-w-1", markedNode(3, false, scaleDownDisabled)) + line(4, kubes, "patch", "nodes c-w-1", markedNode(4, false))},
}
