// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// report logs what a write of a plan has changed, and emits an event for the moves that a user watches. A write that changed nothing, such as
// a step of a drain that evicts Pods, is not reported.
func report(ctx context.Context, p *pass.Pass, w claims.Write) {
	machine, node := w.Machine.Seen.Name, cmp.Or(w.Node.Seen.Name, w.Machine.Want.Claim.Name)
	for _, move := range w.Moves() {
		ctrl.LoggerFrom(ctx).Info(string(move), "Machine", machine, "Node", node, "why", w.Why)
		switch move {
		case claims.DrainByCore:
			p.EventAbout("Node", node, infrav1.EventNodeDrainStarted, "Drain", "Core drains Node %s for Machine %s: %s", node, machine, w.Why)
		case claims.DrainByProvider:
			p.EventAbout("Node", node, infrav1.EventNodeDrainStarted, "Drain", "The provider drains Node %s: %s", node, w.Why)
		case claims.Drained:
			p.EventAbout("Node", node, infrav1.EventNodeDrainEnded, "Drain", "The drain of Node %s has ended: %s", node, w.Why)
		case claims.Uncordoned:
			p.EventAbout("Node", node, infrav1.EventNodeDrainEnded, "Drain", "Node %s takes Pods again: %s", node, w.Why)
		case claims.ChangedNode:
			p.EventAbout("Machine", machine, infrav1.EventMachineMoved, "Move", "Machine %s moved from Node %s to Node %s: %s",
				machine, w.Machine.Seen.Claim.Name, node, w.Why)
		}
	}
}

// reportBlocked emits an event when Pods begin to block a drain. drains is what drains wait for, by Node or, for those of core, by Machine. o
// becomes the condition WorkersReady. The condition of the last pass is the memory: Pods that it names were reported.
func reportBlocked(p *pass.Pass, machines []string, drains map[string]string, o outcome.Outcome) {
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
