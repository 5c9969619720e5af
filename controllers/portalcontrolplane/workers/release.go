// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// Release removes the hooks from all Machines of a Cluster that is being deleted. The whole portal cluster is deleted, so no
// node is drained or kept. If it is retained instead, a scale-down that has begun is undone.
func (k Keeper) Release(ctx context.Context, p *pass.Pass, way access.Way) error {
	machines := &clusterv1.MachineList{}
	name := p.ControlPlane.Labels[clusterv1.ClusterNameLabel]
	if p.Cluster != nil {
		name = p.Cluster.Name
	}
	of := []client.ListOption{client.InNamespace(p.ControlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}
	if err := k.Client.List(ctx, machines, of...); err != nil {
		return err
	}
	// While the portal removes nodes, all of them are left alone, because Pods would return to those that go.
	stays := p.Cluster != nil && p.Owns() && p.DeletionPolicy() == infrav1.DeletionPolicyRetain && activityOf(p.Op()) != claims.RemovingNodes
	if stays {
		if err := k.restoreNodes(ctx, p, way, machines.Items); err != nil {
			return err
		}
	}
	all := []error{k.endPauses(ctx, p.Writer, of...)}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.Spec.InfrastructureRef.Kind == machineKind {
			none := func() { applyToMachine(m, claims.Machine{PreDrain: true, PreTerminate: true}, claims.Machine{}) }
			change, err := ownerref.LetGo(ctx, k.Live, m, none)
			all = append(all, err, client.IgnoreNotFound(writeLogged(ctx, p.Writer, "Machine", m, "Let the Machine go", "the Cluster is being deleted", change)))
		}
	}
	return errors.Join(all...)
}

// restoreNodes undoes a scale-down that has begun on nodes of a portal cluster that stays: they become schedulable and lose our annotations,
// which no controller will do later. A Node that cannot be changed holds up neither the others nor the deletion.
func (k Keeper) restoreNodes(ctx context.Context, p *pass.Pass, way access.Way, machines []clusterv1.Machine) (err error) {
	if way.Connection == nil {
		if way, err = k.Access.Reopen(ctx, p); err != nil {
			return err
		}
	}
	if way.Connection == nil || way.Health.Failing() {
		return nil
	}
	workload := way.Connection.Client()
	nodes, err := ReadNodes(ctx, workload, nil)
	problems := []error{err}
	for i := range nodes.Workers {
		n := &nodes.Workers[i]
		err := writeLogged(ctx, persist.Writer{Client: workload}, "Node", n, "Let the Node go", "the Cluster is being deleted, and the portal cluster stays", func() {
			if isDrained(n, machines) {
				setDrainState(n, claims.DrainState{})
			}
			delete(n.Annotations, infrav1.DrainRulesAnnotation)
			delete(n.Annotations, infrav1.BatchAnnotation)
			enableScaleDown(n)
		})
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("change Node %s: %w", n.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to undo the scale-down of a portal cluster that stays. Nodes may stay cordoned")
	}
	return nil
}

// writeLogged makes a change outside a plan, and logs it with its reason if it made a difference.
func writeLogged(ctx context.Context, writer persist.Writer, kind string, obj client.Object, what, why string, change func()) error {
	before := obj.GetResourceVersion()
	err := writer.Change(ctx, obj, change)
	if err == nil && obj.GetResourceVersion() != before {
		ctrl.LoggerFrom(ctx).Info(what, kind, obj.GetName(), "why", why)
	}
	return err
}

// isDrained reports whether the Node is being drained or was. While core drains it, the Node is cordoned and has no mark of ours.
func isDrained(n *corev1.Node, machines []clusterv1.Machine) bool {
	return drain.Marked(n) || slices.ContainsFunc(machines, func(m clusterv1.Machine) bool {
		return m.Status.NodeRef.Name == n.Name && drain.ByCore(&m)
	})
}

// Draining names a Machine or a Node that is being drained for a scale-down. An upgrade would have to settle that drain first,
// and drains are undone when the upgrade replaces the node. If the portal refuses the scale-down, the upgrade does not wait for
// it.
func Draining(p *pass.Pass, members Members, nodes Nodes) string {
	for i := range members.Machines {
		if m := &members.Machines[i]; drain.ByCore(m) {
			return "Machine " + m.Name
		}
	}
	_, failing := p.Record.Failures[operation.Scale]
	refused := failing || p.Last.Is(operation.Scale) && p.Last.Result != operation.Succeeded || p.Backoff.Stalls(string(operation.Scale))
	for i := range nodes.Workers {
		n := &nodes.Workers[i]
		if drain.Begun(n) || drain.Ended(n) && util.IsNodeReady(n) && !refused {
			return "Node " + n.Name
		}
	}
	return ""
}
