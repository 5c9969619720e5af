// SPDX-License-Identifier: Apache-2.0

// Package portalmachine reconciles PortalMachines: it reports to core and to people whether a claim is bound. Package
// portalcontrolplane decides which node a claim is bound to, for all Machines of a Cluster together. This package never calls the
// portal, and writes nothing but status.
//
// A PortalMachine has no finalizer: core deletes it when both hooks on its Machine are gone, and no resource at the portal
// belongs to it alone.
package portalmachine

import (
	"context"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch

// Reconciler reconciles PortalMachines.
type Reconciler struct {
	Client           client.Client
	WatchFilterValue string
}

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalmachine")
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.PortalMachineList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	machineToPortalMachine := util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("PortalMachine"))
	return capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalMachine{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(machineToPortalMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToMachines), predicates.ClusterPausedTransitions(mgr.GetScheme(), log)).
		Complete(ctx, r)
}

// Reconcile updates the status of one claim.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	claim := &infrav1.PortalMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, claim.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	var cluster *clusterv1.Cluster
	if machine != nil {
		if cluster, err = util.GetClusterByName(ctx, r.Client, machine.Namespace, machine.Spec.ClusterName); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if isPaused, requeue, err := outcome.EnsurePaused(ctx, r.Client, cluster, claim); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	if wait := ownerref.Awaited(claim, machine != nil); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	before := claim.Status.DeepCopy()
	updateStatus(claim, machine)
	return ctrl.Result{}, outcome.PatchStatus(ctx, r.Client, claim, &claim.Status, *before)
}

// updateStatus sets the status of the claim. A claim that was bound once stays provisioned, as the contract requires. If its node
// is replaced, the same claim is bound again.
func updateStatus(claim *infrav1.PortalMachine, machine *clusterv1.Machine) {
	o := outcome.WaitFor(0, infrav1.WaitingForNodesReason, "no worker node is free for this Machine. See condition WorkersReady of the PortalControlPlane for the cause")
	switch {
	case machine == nil:
		o = outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no Machine owns this object. Core sets the owner")
	case claims.IsReleased(claim.Spec.ProviderID) && machine.DeletionTimestamp.IsZero():
		// Restored or moved: the Machine is not being deleted any more, and waits for a node like a new one.
	case claims.IsReleased(claim.Spec.ProviderID):
		o = outcome.WaitFor(0, infrav1.ReleasedReason, "the Machine is being deleted and has given its node back")
		if claim.Spec.Node != nil { // it had a node, even if a restored object has lost its status. Core copies the providerID only if provisioned is true
			claim.Status.Initialization.Provisioned = ptr.To(true)
		}
	case claim.Spec.Node != nil:
		o = outcome.Outcome{}
		claim.Status.Initialization.Provisioned = ptr.To(true)
		claim.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: claim.Spec.Node.Name}}
	}
	outcome.ReportNotPaused(claim)
	outcome.Report(claim, infrav1.ReadyCondition, o)
	claim.Status.ObservedGeneration = claim.Generation
	outcome.ReportDeleting(claim, "")
}
