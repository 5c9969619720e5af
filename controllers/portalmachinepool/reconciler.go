// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinepools/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalcontrolplanes;portalmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinepools,verbs=get;list;watch

// Reconciler reconciles PortalMachinePools.
type Reconciler struct {
	Client           client.Client
	Recorder         events.EventRecorder
	WatchFilterValue string
}

// clusterIndex finds PortalMachinePools by the Cluster in their label. Every write to a control plane or a Machine's claim looks it up.
const clusterIndex = "cluster"

func indexCluster(obj client.Object) []string {
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{name}
	}
	return nil
}

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalmachinepool")
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.PortalMachinePool{}, clusterIndex, indexCluster); err != nil {
		return fmt.Errorf("index PortalMachinePools by Cluster: %w", err)
	}
	member := handler.EnqueueRequestsFromMapFunc(r.fromMember)
	return capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalMachinePool{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.MachinePool{}, member).
		Watches(&infrav1.PortalMachine{}, member).
		Watches(&infrav1.PortalControlPlane{}, member).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.fromCluster)).
		Complete(ctx, r)
}

// fromCluster wakes the pools of the Cluster.
func (r *Reconciler) fromCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.poolsOf(ctx, obj.GetNamespace(), obj.GetName())
}

// fromMember wakes the pools of the Cluster that the object belongs to. A pool may replace another one, and a Machine may take
// over a node of the pool.
func (r *Reconciler) fromMember(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.poolsOf(ctx, obj.GetNamespace(), obj.GetLabels()[clusterv1.ClusterNameLabel])
}

func (r *Reconciler) poolsOf(ctx context.Context, namespace, cluster string) (requests []reconcile.Request) {
	if cluster == "" {
		return nil
	}
	pools := &infrav1.PortalMachinePoolList{}
	if err := r.Client.List(ctx, pools, client.InNamespace(namespace), client.MatchingFields{clusterIndex: cluster}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalMachinePools for a watch event")
		return nil
	}
	for i := range pools.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pools.Items[i])})
	}
	return requests
}

// scope is one pass over one PortalMachinePool.
type scope struct {
	pool        *infrav1.PortalMachinePool
	machinePool *clusterv1.MachinePool // nil if gone, or not linked yet
	cluster     *clusterv1.Cluster     // nil if gone, or not linked yet
	alone       bool                   // the control plane, which would remove nodes, is being deleted or gone
	chosen      string                 // the MachinePool that has the nodes
	nodes       int                    // nodes that belong to the pool
}

// Reconcile updates the status and the finalizer of one pool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &scope{pool: &infrav1.PortalMachinePool{}}
	if err := r.Client.Get(ctx, req.NamespacedName, s.pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.load(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := outcome.EnsurePaused(ctx, r.Client, s.cluster, s.pool); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	if done, err := r.reconcileFinalizer(ctx, s); err != nil || done {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := s.pool.Status.DeepCopy()
	ready := s.updateStatus()
	if err := outcome.PatchStatus(ctx, r.Client, s.pool, &s.pool.Status, *before); err != nil {
		return ctrl.Result{}, err
	}
	outcome.WarnStalled(r.Recorder, s.pool, before.Conditions, map[string]outcome.Outcome{infrav1.ReadyCondition: ready})
	return ctrl.Result{}, nil
}

// load reads what the pass needs.
func (r *Reconciler) load(ctx context.Context, s *scope) error {
	machinePool, err := util.GetOwnerMachinePool(ctx, r.Client, s.pool.ObjectMeta)
	if err != nil || machinePool == nil {
		return client.IgnoreNotFound(err)
	}
	s.machinePool = machinePool
	s.cluster, err = util.GetClusterByName(ctx, r.Client, machinePool.Namespace, machinePool.Spec.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if s.alone, err = r.withoutControlPlane(ctx, s.cluster); err != nil {
		return err
	}
	of := []client.ListOption{client.InNamespace(s.pool.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: machinePool.Spec.ClusterName}}
	pools, machines := &clusterv1.MachinePoolList{}, &infrav1.PortalMachineList{}
	for _, list := range []client.ObjectList{pools, machines} {
		if err := r.Client.List(ctx, list, of...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	if chosen := workers.ChosenPool(pools.Items); chosen != nil {
		s.chosen = chosen.Name
	}
	s.nodes = workers.PoolNodes(s.pool, machines.Items)
	return nil
}

// withoutControlPlane reports whether the PortalControlPlane of the Cluster is being deleted or gone. It then neither drains
// nodes nor shortens the list.
func (r *Reconciler) withoutControlPlane(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if cluster == nil || !cluster.Spec.ControlPlaneRef.IsDefined() {
		return false, nil
	}
	controlPlane := &infrav1.PortalControlPlane{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}, controlPlane)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return !controlPlane.DeletionTimestamp.IsZero(), nil
}

// reconcileFinalizer adds the finalizer, or removes it if the pool can go. done reports whether it has done so.
func (r *Reconciler) reconcileFinalizer(ctx context.Context, s *scope) (done bool, err error) {
	has, goes := controllerutil.ContainsFinalizer(s.pool, infrav1.MachinePoolFinalizer), !s.pool.DeletionTimestamp.IsZero()
	writer := persist.Writer{Client: r.Client}
	switch {
	case !has && !goes:
		return true, writer.Change(ctx, s.pool, func() { controllerutil.AddFinalizer(s.pool, infrav1.MachinePoolFinalizer) })
	case has && goes && s.mayGo():
		return true, writer.Change(ctx, s.pool, func() { controllerutil.RemoveFinalizer(s.pool, infrav1.MachinePoolFinalizer) })
	}
	return false, nil
}

// mayGo reports whether a pool that is being deleted has nothing left to wait for. As long as its MachinePool is not being
// deleted, core would assume that its nodes are gone.
func (s *scope) mayGo() bool {
	switch {
	case s.machinePool == nil, s.cluster == nil, !s.cluster.DeletionTimestamp.IsZero():
		return true
	case s.machinePool.DeletionTimestamp.IsZero():
		return false
	}
	return s.alone || len(s.pool.Spec.ProviderIDList) == 0 || s.chosen != s.machinePool.Name || workers.StalePool(s.machinePool, s.pool, s.cluster)
}

// updateStatus sets the status of the pool, and returns the outcome of Ready. A pool that had all its nodes once stays provisioned, as the
// contract requires. replicas is the length of the list: if the two differed, core would write its annotations on the Nodes of the list in every
// pass. On a Node that a Machine has taken over, core's Machine controller would write them back each time.
func (s *scope) updateStatus() (ready outcome.Outcome) {
	outcome.ReportNotPaused(s.pool)
	o := s.ready()
	if o.IsDone() {
		s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = ptr.To(true), ptr.To(true)
	}
	s.pool.Status.Replicas = ptr.To(int32(len(s.pool.Spec.ProviderIDList)))
	outcome.Report(s.pool, infrav1.ReadyCondition, o)
	s.pool.Status.ObservedGeneration = s.pool.Generation
	outcome.ReportDeleting(s.pool, o.Message)
	return o
}

// ready compares the nodes of the pool with its replicas.
func (s *scope) ready() outcome.Outcome {
	if s.machinePool == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no MachinePool owns this object. Core sets the owner")
	}
	replicas, goes := int(ptr.Deref(s.machinePool.Spec.Replicas, 0)), !s.pool.DeletionTimestamp.IsZero()
	switch {
	case s.cluster == nil:
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "Cluster %s does not exist", s.machinePool.Spec.ClusterName)
	case s.chosen != s.machinePool.Name:
		return outcome.StallFor(0, infrav1.OwnedByAnotherReason, "MachinePool %s is the pool of the Cluster, which has one at most. The replicas of this one do "+
			"not count. Delete one of the two, or use a MachineDeployment", s.chosen)
	case goes && s.machinePool.DeletionTimestamp.IsZero():
		return outcome.StallFor(0, infrav1.WaitingForDependencyReason, "this object is being deleted, but MachinePool %s is not, so its nodes stay. "+
			"Delete the MachinePool", s.machinePool.Name)
	case goes:
		return outcome.WaitFor(0, infrav1.DeletingReason, "%s left. Nodes are drained before the portal removes them. See condition "+
			"WorkersReady of the PortalControlPlane for progress", outcome.Count(s.nodes, "node"))
	case s.nodes < replicas:
		return outcome.WaitFor(0, infrav1.ScalingUpReason, "the pool has %d of %d nodes. See condition WorkersReady of the PortalControlPlane for progress", s.nodes, replicas)
	case s.nodes > replicas:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "the pool has %s, but wants %d. Nodes are drained before the portal removes "+
			"them. See condition WorkersReady of the PortalControlPlane for progress", outcome.Count(s.nodes, "node"), replicas)
	}
	return outcome.Outcome{}
}
