// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// RestoreScheduling makes the worker nodes schedulable that a failed scale-down or upgrade left cordoned: a portal that drains nodes itself
// does that to the node at which it fails. A node that was cordoned before, or that has a mark of the provider or a taint of its own, stays as
// it is. This happens once after the failure, so a later cordon stays too. It returns the nodes that cannot be changed, with the reason. They
// are tried again, and hold up nothing else.
func RestoreScheduling(ctx context.Context, p *pass.Pass, workload client.Client, nodes []corev1.Node, machines []clusterv1.Machine) (problem string, err error) {
	failed := (p.Last.Is(operation.Upgrade) || p.Last.RemovesNodes()) && p.Last.Result == operation.Failed
	if !failed || p.BeingDeleted() || !slices.ContainsFunc(p.Last.Before, func(b removal.NodeSnapshot) bool { return b.Schedulable }) {
		return "", nil
	}
	left := map[string]bool{} // the UIDs of the nodes that cannot be changed
	for _, n := range nodes {
		if !slices.ContainsFunc(p.Last.Before, func(b removal.NodeSnapshot) bool { return b.UID == string(n.UID) && b.Schedulable }) {
			continue
		}
		err := restoreNode(ctx, p, workload, n.Name, machines)
		switch {
		case apierrors.IsConflict(err):
			return "", err
		case client.IgnoreNotFound(err) != nil && len(left) == 0:
			problem = fmt.Sprintf("the %s failed, and Node %s cannot be made schedulable again if it was left cordoned: %v", p.Last, n.Name, err)
			fallthrough
		case client.IgnoreNotFound(err) != nil:
			left[string(n.UID)] = true
		}
	}
	return problem, p.Change(ctx, func(next *operation.State) {
		done := *next.Last
		done.Before = slices.Clone(done.Before)
		for i := range done.Before {
			done.Before[i].Schedulable = left[done.Before[i].UID]
		}
		next.Last = &done
	})
}

// restoreNode reads the Node past the cache, which may not show the cordon yet.
func restoreNode(ctx context.Context, p *pass.Pass, workload client.Client, name string, machines []clusterv1.Machine) error {
	n := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: name}, n); err != nil || !n.Spec.Unschedulable || drain.Marked(n) {
		return err
	}
	if why := staysCordoned(n, machines); why != "" {
		p.WarnAbout("Node", name, infrav1.EventOperationFailed, string(p.Last.Type),
			"The %s failed, and worker node %s has been cordoned since then. It stays cordoned, because %s", p.Last, name, why)
		return nil
	}
	if err := (persist.Writer{Client: workload}).Change(ctx, n, func() { n.Spec.Unschedulable = false }); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Made a Node schedulable that a failed operation left cordoned", "Node", name, "why", p.Last.String()+" failed")
	p.WarnAbout("Node", name, infrav1.EventOperationFailed, string(p.Last.Type),
		"The %s failed and left worker node %s cordoned. The provider made the node schedulable again", p.Last, name)
	return nil
}

// staysCordoned returns why the Node must not take Pods, or "". Kubernetes itself sets taints of node.kubernetes.io. A taint that only prefers
// other Nodes, as core's for an outdated revision, is no reason.
func staysCordoned(n *corev1.Node, machines []clusterv1.Machine) string {
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return "it has taint " + t.Key
		}
	}
	if machine := deletedOn(n, machines); machine != "" {
		return "Machine " + machine + " is being deleted"
	}
	if !util.IsNodeReady(n) {
		return "it is not Ready"
	}
	return ""
}

// deletedOn returns the name of the Machine on the Node that is being deleted, or "".
func deletedOn(n *corev1.Node, machines []clusterv1.Machine) string {
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && m.Status.NodeRef.Name == n.Name {
			return m.Name
		}
	}
	return ""
}

// snapshot records the nodes before an upgrade, with the batches of those that the last operation made.
func snapshot(nodes []corev1.Node, last *operation.Operation) (seen []removal.NodeSnapshot) {
	for _, n := range nodes {
		one := removal.NodeSnapshot{
			UID: string(n.UID), Created: n.CreationTimestamp.Unix(), Schedulable: !n.Spec.Unschedulable, Batch: n.Annotations[infrav1.BatchAnnotation],
		}
		if last.Is(operation.Scale) || last.Is(operation.Upgrade) {
			one.Batch = removal.MadeBy(one, last.ID, last.Before)
		}
		seen = append(seen, one)
	}
	return seen
}
