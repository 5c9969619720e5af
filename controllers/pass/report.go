// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// Report logs what a write of a plan has changed, and emits an event for the moves that a user watches. A write that changed nothing, such as
// a step of a drain that evicts Pods, is not reported.
func (p *Pass) Report(ctx context.Context, w claims.Write) {
	machine, node := w.Machine.Seen.Name, cmp.Or(w.Node.Seen.Name, w.Machine.Want.ClaimNode)
	for _, move := range w.Moves() {
		ctrl.LoggerFrom(ctx).Info(string(move), "Machine", machine, "Node", node, "why", w.Why)
		switch move {
		case claims.DrainByCore:
			p.eventAbout("Node", node, infrav1.EventNodeDrainStarted, "Drain", "Core drains Node %s for Machine %s: %s", node, machine, w.Why)
		case claims.DrainByProvider:
			p.eventAbout("Node", node, infrav1.EventNodeDrainStarted, "Drain", "The provider drains Node %s: %s", node, w.Why)
		case claims.Drained:
			p.eventAbout("Node", node, infrav1.EventNodeDrainEnded, "Drain", "Node %s is drained: %s", node, w.Why)
		case claims.Uncordoned:
			p.eventAbout("Node", node, infrav1.EventNodeDrainEnded, "Drain", "Node %s takes Pods again: %s", node, w.Why)
		case claims.ChangedNode:
			p.eventAbout("Machine", machine, infrav1.EventMachineMoved, "Move", "Machine %s moved from Node %s to Node %s: %s",
				machine, w.Machine.Seen.ClaimNode, node, w.Why)
		}
	}
}

// eventAbout reports what happened to a Node or Machine.
func (p *Pass) eventAbout(kind, name, reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, Related(kind, name), corev1.EventTypeNormal, reason, action, format, args...)
}

// WarnAbout is Warn about a Node or Machine.
func (p *Pass) WarnAbout(kind, name, reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, Related(kind, name), corev1.EventTypeWarning, reason, action, format, args...)
}

// WarnBoth is Warn about the control plane and the Cluster, which people look at first.
func (p *Pass) WarnBoth(reason, action, format string, args ...any) {
	p.Warn(reason, action, format, args...)
	if p.Cluster != nil {
		p.Recorder.Eventf(p.Cluster, nil, corev1.EventTypeWarning, reason, action, format, args...)
	}
}

// WarnUndrained warns of nodes that a scale-down removed although they were not drained, if there are any.
func (p *Pass) WarnUndrained(nodes []string, why string) {
	if len(nodes) == 0 {
		return
	}
	metrics.UndrainedRemoved(p.ControlPlane.Namespace, p.ControlPlane.Name, len(nodes))
	p.WarnBoth(infrav1.EventUndrainedWorkersRemoved, "scale", "The portal removed %s without a drain, so Pods there were killed without an eviction. %s",
		outcome.Names(nodes), why)
}

// Related returns the related object of an event. The recorder counts events of one pass that differ in nothing but their text as one, and
// keeps only the first text.
func Related(kind, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: kind, Name: name}
}

// ReportBlocked emits an event when Pods begin to block a drain. drains is what drains wait for, by Node or, for those of core, by Machine. o
// becomes the condition WorkersReady. The condition of the last pass is the memory: Pods that it names were reported.
func (p *Pass) ReportBlocked(machines []string, drains map[string]string, o outcome.Outcome) {
	before := conditions.GetMessage(p.ControlPlane, infrav1.WorkersReadyCondition)
	for _, name := range slices.Sorted(maps.Keys(drains)) {
		kind := "Node"
		if slices.Contains(machines, name) {
			kind = "Machine"
		}
		blocked := slices.DeleteFunc(drain.Blocked(drains[name]), func(line string) bool {
			pods, _, _ := strings.Cut(line, ":")
			return !strings.Contains(o.Message, line) || strings.Contains(before, pods+":")
		})
		if len(blocked) > 0 {
			p.WarnAbout(kind, name, infrav1.EventNodeDrainBlocked, "Drain", "The drain of %s %s is blocked by %s", kind, name, strings.Join(blocked, "; "))
		}
	}
}
