// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinepools,verbs=get;list;watch;patch

// pool is the MachinePool that gets the nodes which no Machine claims, with its PortalMachinePool.
type pool struct {
	machinePool clusterv1.MachinePool
	infra       *infrav1.PortalMachinePool // nil if it is not created yet, or is gone
	nodes       int                        // of its list, that no Machine has taken over
}

// PoolKind is the kind of infrastructure that the MachinePool of a portal cluster names.
const PoolKind = "PortalMachinePool"

// ChosenPool returns the MachinePool of a Cluster that gets the nodes which no Machine claims, or nil. It must be backed by a
// PortalMachinePool. One whose list names nodes is preferred, then the oldest. Moving or restoring objects changes their age.
func ChosenPool(pools []clusterv1.MachinePool) *clusterv1.MachinePool {
	ours := slices.DeleteFunc(slices.Clone(pools), func(mp clusterv1.MachinePool) bool {
		return mp.Spec.Template.Spec.InfrastructureRef.Kind != PoolKind
	})
	if len(ours) == 0 {
		return nil
	}
	oldest := slices.MinFunc(ours, func(a, b clusterv1.MachinePool) int {
		return cmp.Or(rank(a)-rank(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return &oldest
}

// rank is 0 for a MachinePool that names nodes. Core copies the list of the PortalMachinePool into it.
func rank(mp clusterv1.MachinePool) int {
	if len(mp.Spec.ProviderIDList) > 0 {
		return 0
	}
	return 1
}

// StalePool reports whether an owner reference of the MachinePool, or of its PortalMachinePool, has an old UID of the present owner.
// If the MachinePool is being deleted, the garbage collector may then have deleted it. Core corrects the reference of a
// MachinePool even while it is being deleted, but not that of its PortalMachinePool.
func StalePool(mp *clusterv1.MachinePool, pool *infrav1.PortalMachinePool, cluster *clusterv1.Cluster) bool {
	if ownerref.Stale(mp, cluster) {
		return true
	}
	if pool == nil {
		return false
	}
	reference := metav1.GetControllerOf(pool)
	return reference != nil && reference.Kind == "MachinePool" && reference.Name == mp.Name && reference.UID != mp.UID
}

// PoolNodes counts the nodes of the pool, which may be nil, that no Machine has taken over.
func PoolNodes(pool *infrav1.PortalMachinePool, machines []infrav1.PortalMachine) (n int) {
	if pool == nil {
		return 0
	}
	for _, id := range pool.Spec.ProviderIDList {
		if !slices.ContainsFunc(machines, func(m infrav1.PortalMachine) bool { return m.Spec.ProviderID == id }) {
			n++
		}
	}
	return n
}

// readPool returns the pool that gets nodes, with its PortalMachinePool, or nil.
func readPool(ctx context.Context, reader client.Reader, all []clusterv1.MachinePool, machines []infrav1.PortalMachine) (*pool, error) {
	chosen := ChosenPool(all)
	if chosen == nil {
		return nil, nil // a missing object is not an error
	}
	infra, name := &infrav1.PortalMachinePool{}, chosen.Spec.Template.Spec.InfrastructureRef.Name
	err := reader.Get(ctx, client.ObjectKey{Namespace: chosen.Namespace, Name: name}, infra)
	switch {
	case apierrors.IsNotFound(err):
		infra = nil
	case err != nil:
		return nil, fmt.Errorf("read PortalMachinePool %s: %w", name, err)
	}
	return &pool{machinePool: *chosen, infra: infra, nodes: PoolNodes(infra, machines)}, nil
}

// poolView returns the pool for a plan. Until core has removed a MachinePool, it may delete Nodes under the names that it knows,
// even if the PortalMachinePool is gone already.
func poolView(cluster *clusterv1.Cluster, p *pool, nodes Nodes) *claims.Pool {
	if p == nil {
		return nil
	}
	mp := &p.machinePool
	deleting := !mp.DeletionTimestamp.IsZero() && !StalePool(mp, p.infra, cluster) && p.pause().by == "" // core deletes no paused one
	if p.infra == nil && !deleting {
		return nil
	}
	view := &claims.Pool{
		Replicas: p.replicas(),
		Deleting: deleting,
		Shrinks:  p.shrinks(),
		Copied:   mp.Spec.ProviderIDList,
	}
	for _, n := range nodes.others {
		view.Others = append(view.Others, n.Spec.ProviderID)
	}
	for _, ref := range mp.Status.NodeRefs {
		if !pausedByProvider(mp) { // else the provider removes the nodeRefs before core looks at them
			view.Known = append(view.Known, ref.Name)
		}
	}
	if p.infra != nil {
		view.List = p.infra.Spec.ProviderIDList
	}
	return view
}

// lists reports whether the pool's list names the Node.
func (p *pool) lists(n *corev1.Node) bool {
	return p != nil && p.infra != nil && slices.Contains(p.infra.Spec.ProviderIDList, n.Spec.ProviderID)
}

// mismatched reports whether the pool asks for other workers than the portal cluster was created with.
func (p *pool) mismatched(recorded *infrav1.WorkerParameters) bool {
	return p != nil && p.infra != nil && recorded != nil && p.infra.Spec.WorkerParameters != *recorded
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools/status,verbs=patch

// pausedForUpgrade is the value of core's paused annotation on a MachinePool that the provider has paused. A user who pauses a MachinePool
// writes another value.
const pausedForUpgrade = "portal-upgrade"

// PausePool asks core to pause the MachinePool before an upgrade. It is done when core has paused it. Core looks for the Nodes of a pool by
// name. In an upgrade a new Node may come under such a name, with a providerID that the portal sets. The provider cannot list that
// ID before core sees the Node, and core would delete the Node object.
// The members then have the MachinePool as it is now.
func (k Keeper) PausePool(ctx context.Context, p *pass.Pass, members Members, nodes Nodes) outcome.Outcome {
	pool, wanted := members.pool, p.ControlPlane.Spec.Version
	if pool == nil || !pool.portalSetsIDs(p.ControlPlane.Spec.ClusterID, nodes) {
		return outcome.Outcome{}
	}
	mp := &clusterv1.MachinePool{} // read past the cache, which may still show the condition of an earlier pause
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(&pool.machinePool), mp); err != nil {
		return outcome.Fail(fmt.Errorf("read MachinePool %s: %w", pool.machinePool.Name, err))
	}
	if !mp.DeletionTimestamp.IsZero() {
		if err := k.endPause(ctx, p.Writer, mp); err != nil {
			return outcome.Fail(err)
		}
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s starts when MachinePool %s, which is being deleted, is gone. "+
			"If this takes long, look at its conditions", wanted, mp.Name)
	}
	asked := metav1.HasAnnotation(mp.ObjectMeta, clusterv1.PausedAnnotation)
	c := conditions.Get(mp, clusterv1.PausedCondition)
	if asked && (c == nil || c.Status == metav1.ConditionTrue) { // nil: core has never seen the MachinePool
		return outcome.Outcome{}
	}
	if !asked {
		pause := func() { metav1.SetMetaDataAnnotation(&mp.ObjectMeta, clusterv1.PausedAnnotation, pausedForUpgrade) }
		why := "the portal may give new nodes the names of old ones in the upgrade to " + wanted
		if err := writeLogged(ctx, p.Writer, "MachinePool", mp, "Paused the MachinePool", why, pause); err != nil {
			return outcome.Fail(fmt.Errorf("pause MachinePool %s: %w", mp.Name, err))
		}
	}
	pool.machinePool = *mp
	return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s starts when Cluster API's core manager has paused MachinePool %s. "+
		"If this takes long, check that the core manager runs", wanted, mp.Name)
}

// ResumePool ends the pause if no upgrade runs, so that the MachinePool is not paused while the portal refuses an upgrade. At other times it removes
// the nodeRefs whose Node is gone, since core keeps them if the last Node of a pool goes.
func (k Keeper) ResumePool(ctx context.Context, p *pass.Pass, members Members, nodes Nodes) error {
	pool := members.pool
	if pool == nil {
		return nil
	}
	switch paused := pausedByProvider(&pool.machinePool); {
	case paused && !p.Op().Is(operation.Upgrade):
		return k.endPause(ctx, p.Writer, &pool.machinePool)
	case !paused && pool.portalSetsIDs(p.ControlPlane.Spec.ClusterID, nodes):
		return k.removeNodeRefs(ctx, &pool.machinePool, nodes.gone)
	}
	return nil
}

// removeNodeRefs removes the nodeRefs that core must not go by.
func (k Keeper) removeNodeRefs(ctx context.Context, mp *clusterv1.MachinePool, which func(corev1.ObjectReference) bool) error {
	if !slices.ContainsFunc(mp.Status.NodeRefs, which) {
		return nil
	}
	before := mp.DeepCopy()
	mp.Status.NodeRefs = slices.DeleteFunc(mp.Status.NodeRefs, which)
	if err := k.Client.Status().Patch(ctx, mp, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove nodeRefs of MachinePool %s: %w", mp.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Removed nodeRefs of the MachinePool", "MachinePool", mp.Name, "why", "core would take new Nodes for the earlier ones of these names")
	return nil
}

// endPause lets core reconcile a MachinePool again that the provider has paused. Before that it removes all nodeRefs, so that core does not
// take a new Node for an earlier one of its name. Core sets them again.
func (k Keeper) endPause(ctx context.Context, writer persist.Writer, mp *clusterv1.MachinePool) error {
	if !pausedByProvider(mp) {
		return nil
	}
	if err := k.removeNodeRefs(ctx, mp, func(corev1.ObjectReference) bool { return true }); err != nil {
		return err
	}
	resume := func() { delete(mp.Annotations, clusterv1.PausedAnnotation) }
	if err := writeLogged(ctx, writer, "MachinePool", mp, "Resumed the MachinePool", "no upgrade runs", resume); err != nil {
		return fmt.Errorf("resume MachinePool %s: %w", mp.Name, err)
	}
	return nil
}

// endPauses resumes the MachinePools of a Cluster that is being deleted. Core would not delete a paused one.
func (k Keeper) endPauses(ctx context.Context, writer persist.Writer, of ...client.ListOption) error {
	pools := &clusterv1.MachinePoolList{}
	if err := k.Client.List(ctx, pools, of...); err != nil {
		return fmt.Errorf("list MachinePools: %w", err)
	}
	var all []error
	for i := range pools.Items {
		all = append(all, client.IgnoreNotFound(k.endPause(ctx, writer, &pools.Items[i])))
	}
	return errors.Join(all...)
}

func pausedByProvider(mp *clusterv1.MachinePool) bool {
	return mp.Annotations[clusterv1.PausedAnnotation] == pausedForUpgrade
}

// portalSetsIDs reports whether a node of the cluster has, or one of the pool had, a providerID that the provider did not set.
func (p *pool) portalSetsIDs(clusterID string, nodes Nodes) bool {
	ids := slices.Clone(p.machinePool.Spec.ProviderIDList)
	if p.infra != nil {
		ids = append(ids, p.infra.Spec.ProviderIDList...)
	}
	for _, n := range nodes.Workers {
		ids = append(ids, n.Spec.ProviderID)
	}
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" && !claims.SetByProvider(clusterID, id) })
}
