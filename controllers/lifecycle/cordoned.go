// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// RestoreScheduling makes the worker nodes schedulable that a failed upgrade left cordoned: a portal that drains nodes itself does that to
// the node at which it fails. A node that was cordoned before the upgrade, or that has a taint of its own, stays as it is. This happens once
// after the failure, so a later cordon stays too.
func RestoreScheduling(ctx context.Context, p *pass.Pass, workload client.Client, nodes []corev1.Node, machines []clusterv1.Machine) error {
	if !p.Last.Is(operation.Upgrade) || p.Last.Result != operation.Failed || len(p.Last.Before) == 0 || p.BeingDeleted() {
		return nil
	}
	for _, n := range nodes {
		if !slices.ContainsFunc(p.Last.Before, func(b claims.NodeSnapshot) bool { return b.UID == string(n.UID) }) {
			continue
		}
		if err := restoreNode(ctx, p, workload, n.Name, machines); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return p.Change(ctx, func(next *operation.State) {
		done := *next.Last
		done.Before = nil
		next.Last = &done
	})
}

// restoreNode reads the Node past the cache, which may not show the cordon yet.
func restoreNode(ctx context.Context, p *pass.Pass, workload client.Client, name string, machines []clusterv1.Machine) error {
	n := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: name}, n); err != nil || !n.Spec.Unschedulable {
		return err
	}
	if why := staysCordoned(n, machines); why != "" {
		p.WarnAbout("Node", name, infrav1.EventOperationFailed, string(operation.Upgrade),
			"The %s failed, and worker node %s has been cordoned since then. It stays cordoned, because %s", p.Last, name, why)
		return nil
	}
	if err := (operation.Writer{Client: workload}).Change(ctx, n, func() { n.Spec.Unschedulable = false }); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Made a Node schedulable that a failed upgrade left cordoned", "Node", name)
	p.WarnAbout("Node", name, infrav1.EventOperationFailed, string(operation.Upgrade),
		"The %s failed and left worker node %s cordoned. The provider made the node schedulable again", p.Last, name)
	return nil
}

// staysCordoned returns why the Node must not take Pods, or "". Kubernetes itself sets taints of node.kubernetes.io.
func staysCordoned(n *corev1.Node, machines []clusterv1.Machine) string {
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			return "it has taint " + t.Key
		}
	}
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && m.Status.NodeRef.Name == n.Name {
			return "Machine " + m.Name + " is being deleted"
		}
	}
	if !util.IsNodeReady(n) {
		return "it is not Ready"
	}
	return ""
}

// schedulable returns the nodes that take Pods, as they are before an upgrade.
func schedulable(nodes []corev1.Node) (seen []claims.NodeSnapshot) {
	for _, n := range nodes {
		if !n.Spec.Unschedulable {
			seen = append(seen, claims.NodeSnapshot{UID: string(n.UID), Created: n.CreationTimestamp.Unix()})
		}
	}
	return seen
}
