// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// PollOperation polls the operation in flight and stores how it ended. If it has ended, the next steps decide again.
// Creations are polled by Ensure.
func (k *Clusters) PollOperation(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if p.Op() == nil || p.Op().Type == operation.Create {
		return outcome.Outcome{}
	}
	if p.ControlPlane.DeletionTimestamp.IsZero() && !p.Owns() { // a deletion has already checked MayDelete
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	o := p.Runner().Poll(ctx)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case p.Op() == nil:
		return outcome.Outcome{}
	case !p.Infrastructure.IsDone() && !p.Op().Lost():
		return p.Infrastructure.Prefix("%s", p.Op())
	}
	return o
}

// RecordWork records what the nodes show of a scale or an upgrade: that the portal works on them and, when the operation has failed, whether
// repeating it may cost something (operation/brake.go). An upgrade is observed while it runs, because the portal may make the node
// schedulable at which it fails. live reads the workers past the cache, which may not show the end yet. If a scale-down has failed, the nodes
// are named that it removed although they were not drained. One that disappears later is not named.
func RecordWork(
	ctx context.Context, p *pass.Pass, running Running, machines []clusterv1.Machine, live func(context.Context) ([]corev1.Node, error),
) error {
	op := p.Last
	if !op.Is(operation.Upgrade) && !op.Is(operation.Scale) || p.BeingDeleted() {
		return nil
	}
	work := operation.WorkSeen
	switch {
	case op.InFlight() && op.Is(operation.Upgrade) && op.Work == "" && worked(op, running, machines):
	case op.Result == operation.Failed && (op.Work == "" || op.Work == operation.WorkSeen):
		var err error
		if running.Nodes, err = live(ctx); err != nil {
			return err
		}
		work = workOf(op, running, machines)
	default:
		return nil
	}
	err := p.Change(ctx, func(next *operation.State) {
		last := *next.Last
		last.Work, next.Last = work, &last
		if work == operation.WorkCostly {
			next.Record = next.Record.Failed(&last, metav1.Now())
		}
	})
	if err == nil {
		p.WarnUndrained(undrained(op, running.Nodes), fmt.Sprintf("The %s has failed", op))
	}
	return err
}

// undrained names the nodes that were not drained before a scale-down and do not exist any more.
func undrained(op *operation.Operation, nodes []corev1.Node) (names []string) {
	for _, b := range op.Before {
		if op.RemovesNodes() && b.HadPods() && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return string(n.UID) == b.UID }) {
			names = append(names, b.Name)
		}
	}
	return names
}

// workOf returns whether repeating an operation that has failed may cost something.
func workOf(op *operation.Operation, running Running, machines []clusterv1.Machine) operation.Work {
	if (op.Work == operation.WorkSeen || worked(op, running, machines)) && !nearer(op, running.Nodes) {
		return operation.WorkCostly
	}
	return operation.WorkNone
}

// worked reports whether the portal has worked on nodes since the request: a worker is gone or was cordoned or, in an upgrade, a version
// differs. A scale that only adds workers comes nearer to its size.
func worked(op *operation.Operation, running Running, machines []clusterv1.Machine) bool {
	if op.Is(operation.Upgrade) && op.Digest != "" && op.Digest != running.digest() {
		return true
	}
	for _, b := range op.Before {
		i := slices.IndexFunc(running.Nodes, func(n corev1.Node) bool { return string(n.UID) == b.UID })
		if i < 0 || b.Schedulable && cordonedByPortal(&running.Nodes[i], machines) {
			return true
		}
	}
	return false
}

// cordonedByPortal reports whether a Node is cordoned, and neither the provider nor core drains it.
func cordonedByPortal(n *corev1.Node, machines []clusterv1.Machine) bool {
	return n.Spec.Unschedulable && !drain.Marked(n) && deletedOn(n, machines) == ""
}

// nearer reports whether a scale has come nearer to its size. Such a scale ends, however often it fails.
func nearer(op *operation.Operation, nodes []corev1.Node) bool {
	distance := func(nodes int) int { return max(nodes-op.Size(), op.Size()-nodes) }
	return op.Is(operation.Scale) && distance(len(nodes)) < distance(len(op.Before))
}
