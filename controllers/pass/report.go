// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// Report logs what a write of a plan has changed, and emits an event for the moves that a user watches. A write that changed nothing, such as
// a step of a drain that evicts Pods, is not reported.
func (p *Pass) Report(ctx context.Context, w claims.Write) {
	node := cmp.Or(w.Node.Seen.Name, w.Machine.Want.ClaimNode)
	for _, move := range w.Moves() {
		ctrl.LoggerFrom(ctx).Info(string(move), "Machine", w.Machine.Seen.Name, "Node", node, "why", w.Why)
		switch move {
		case claims.DrainByCore:
			p.Event(infrav1.EventNodeDrainStarted, "Drain", "Core drains Node %s for Machine %s: %s", node, w.Machine.Seen.Name, w.Why)
		case claims.DrainByProvider:
			p.Event(infrav1.EventNodeDrainStarted, "Drain", "The provider drains Node %s: %s", node, w.Why)
		case claims.Drained:
			p.Event(infrav1.EventNodeDrainEnded, "Drain", "Node %s is drained: %s", node, w.Why)
		case claims.Uncordoned:
			p.Event(infrav1.EventNodeDrainEnded, "Drain", "Node %s takes Pods again: %s", node, w.Why)
		case claims.ChangedNode:
			p.Event(infrav1.EventMachineMoved, "Move", "Machine %s moved from Node %s to Node %s: %s", w.Machine.Seen.Name, w.Machine.Seen.ClaimNode, node, w.Why)
		}
	}
}

// ReportBlocked emits an event when Pods begin to block a drain. drains is what drains wait for, by Machine or Node, and o becomes the
// condition WorkersReady. The condition of the last pass is the memory: Pods that it names were reported.
func (p *Pass) ReportBlocked(drains map[string]string, o outcome.Outcome) {
	before := conditions.GetMessage(p.ControlPlane, infrav1.WorkersReadyCondition)
	for _, name := range slices.Sorted(maps.Keys(drains)) {
		for _, blocked := range drain.Blocked(drains[name]) {
			pods, _, _ := strings.Cut(blocked, ":")
			if strings.Contains(o.Message, blocked) && !strings.Contains(before, pods+":") {
				p.Warn(infrav1.EventNodeDrainBlocked, "Drain", "The drain of %s is blocked by %s", name, blocked)
			}
		}
	}
}
