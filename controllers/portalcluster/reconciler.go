// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalclusters/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconciler reconciles PortalClusters.
type Reconciler struct {
	Client           client.Client
	Live             client.Reader
	Identities       *identity.Resolver
	Recorder         events.EventRecorder
	WatchFilterValue string
	// Answers of portals that count for several PortalClusters.
	Answers *outcome.Answers
	// Calls are the creations under way, which outlive their passes.
	Calls *operation.Calls
	// Woken is the source of the objects for which the limiter has a token.
	Woken source.Source

	controller capicontroller.Controller
	memories   outcome.Memories[memory]
}

// memory is what the manager remembers of a PortalCluster.
type memory struct {
	backoff outcome.Backoff
	outage  outcome.Outage // of the portal
}

func (r *Reconciler) memory(s *scope) *memory {
	return r.memories.Of(client.ObjectKeyFromObject(s.portalCluster))
}

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) (err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalcluster")
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.PortalCluster{}, clusterIndex, indexCluster); err != nil {
		return fmt.Errorf("index PortalClusters by Cluster: %w", err)
	}
	toPortalCluster := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("PortalCluster"), mgr.GetClient(), &infrav1.PortalCluster{})
	builder := capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalCluster{}).
		WithOptions(options).
		WithEventFilter(identity.EventFilter(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(toPortalCluster),
			predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log)).
		Watches(&infrav1.PortalControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.fromControlPlane), controlPlaneChanged).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.fromIdentity)).
		WatchesRawSource(r.Woken)
	if r.Identities.Namespace != "" {
		builder = builder.Watches(&infrav1.PortalClusterIdentity{}, handler.EnqueueRequestsFromMapFunc(r.fromIdentity), predicate.GenerationChangedPredicate{})
	}
	r.controller, err = builder.Build(ctx, r)
	return err
}

// fromIdentity wakes the PortalClusters that use the Secret or PortalClusterIdentity.
func (r *Reconciler) fromIdentity(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	users, err := r.Identities.Users(ctx, obj)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalClusters for a watch event")
		return nil
	}
	for i := range users {
		if identity.Watched(&users[i], r.WatchFilterValue) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&users[i])})
		}
	}
	return requests
}

// scope is one pass over one PortalCluster.
type scope struct {
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	identity      identity.Identity
	vpcID         string
	networkID     string
	hasKubeconfig bool             // or the control plane is not ours
	exists        bool             // the portal cluster exists or may exist, so nothing is created for it
	placed        bool             // exists, or the control plane is not ours
	released      bool             // it may have existed until this pass
	created       operation.Record // what the portal cluster was created with, or may have been

	identityReady, networkReady, deleting outcome.Outcome
}

// newScope begins a pass. All steps start as waiting, so a step that is not reached reports nothing.
func newScope(cluster *clusterv1.Cluster, portalCluster *infrav1.PortalCluster) *scope {
	return &scope{cluster: cluster, portalCluster: portalCluster, identityReady: outcome.RetryAfter(0), networkReady: outcome.RetryAfter(0)}
}

// Reconcile takes one PortalCluster a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, reterr error) {
	ctx = cloud.WithFlow(ctx, req.String()+"/reads") // as package wakeup expects it
	portalCluster := &infrav1.PortalCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, portalCluster); err != nil {
		r.memories.Drop(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if annotations.IsExternallyManaged(portalCluster) {
		return ctrl.Result{}, nil // another system provides the infrastructure, and writes this object and its status
	}
	cluster, err := util.GetOwnerCluster(ctx, r.Client, portalCluster.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := outcome.EnsurePaused(ctx, r.Client, cluster, portalCluster); err != nil || isPaused || requeue {
		if err == nil && isPaused {
			err = r.Calls.UnblockMove(ctx, r.writer(), portalCluster)
		}
		return ctrl.Result{}, err
	}
	if wait := ownerref.Awaited(portalCluster, cluster != nil); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	s := newScope(cluster, portalCluster)
	before := portalCluster.Status.DeepCopy()
	defer func() {
		if err := r.patchStatus(ctx, s, before); err != nil && reterr == nil {
			reterr = err
		}
	}()
	if !portalCluster.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	return r.reconcileNormal(ctx, s)
}

func (r *Reconciler) reconcileNormal(ctx context.Context, s *scope) (ctrl.Result, error) {
	if s.cluster == nil {
		return ctrl.Result{}, nil // core sets the owner, which wakes the object
	}
	if !controllerutil.ContainsFinalizer(s.portalCluster, infrav1.ClusterFinalizer) {
		if err := r.writer().Change(ctx, s.portalCluster, func() { controllerutil.AddFinalizer(s.portalCluster, infrav1.ClusterFinalizer) }); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.readControlPlane(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	accepted := conditions.IsTrue(s.portalCluster, infrav1.IdentityReadyCondition)
	s.identityReady = r.memory(s).outage.Tolerate(accepted, infrav1.PortalUnavailableReason, r.reconcileIdentity(ctx, s))
	s.networkReady = r.reconcilePlace(ctx, s)
	outcome.Log(ctx, s.identityReady, s.networkReady)
	return outcome.Result(s.identityReady, s.networkReady), outcome.FirstError(s.identityReady, s.networkReady)
}

// readControlPlane finds out whether the control plane has a kubeconfig. Until then the infrastructure is not reported as
// provisioned. Otherwise core would connect to the workload cluster too early, and try again only after half a minute. It also
// finds out whether the control plane may have a portal cluster.
func (r *Reconciler) readControlPlane(ctx context.Context, s *scope) error {
	ref := s.cluster.Spec.ControlPlaneRef
	if ref.Kind != "PortalControlPlane" {
		s.hasKubeconfig, s.placed = true, true
		return nil
	}
	controlPlane := &infrav1.PortalControlPlane{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}, controlPlane); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.hasKubeconfig, s.exists, s.created = hasKubeconfig(controlPlane), mayHaveCluster(controlPlane), created(controlPlane)
	s.placed, s.released = s.exists, !s.exists && s.portalCluster.Status.ZoneID != ""
	return nil
}

// reconcilePlace finds VPC and network, once the portal accepts the identity.
func (r *Reconciler) reconcilePlace(ctx context.Context, s *scope) outcome.Outcome {
	if s.identityReady.Kind == outcome.Retry {
		return s.identityReady
	}
	if !s.identityReady.IsDone() {
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the identity: see condition IdentityReady")
	}
	if o := r.reconcileVPC(ctx, s); !o.IsDone() {
		return o
	}
	return r.reconcileNetwork(ctx, s)
}

func (r *Reconciler) writer() persist.Writer {
	return persist.Writer{Client: r.Client, Live: r.Live, Wrote: r.wrote}
}

// wrote makes the next pass wait until the cache shows our own write.
func (r *Reconciler) wrote(obj client.Object) {
	if r.controller != nil {
		r.controller.DeferNextReconcileUntilCacheUpToDate(obj,
			capicontroller.StructuredObject(infrav1.GroupVersion, "PortalCluster"), obj.GetResourceVersion())
	}
}

// reconcileIdentity resolves the identity, holds it and logs in with it. A refused login is not repeated before its time, unless
// the Secret changes.
func (r *Reconciler) reconcileIdentity(ctx context.Context, s *scope) outcome.Outcome {
	id, problem := r.Identities.Resolve(ctx, s.portalCluster.Namespace, s.portalCluster.Spec.IdentityRef)
	if !problem.IsDone() {
		return problem
	}
	if held := r.Identities.EnsureFinalizer(ctx, s.portalCluster); !held.IsDone() {
		return held
	}
	return r.memory(s).backoff.Do("identity", id.Version, func() outcome.Outcome {
		if _, err := id.Portal.UserID(ctx); err != nil {
			o := outcome.FromPortalError(err)
			if id.Shared != "" { // its Secret is not the user's to correct
				o = o.Prefix("PortalClusterIdentity %q", id.Shared)
			}
			return o
		}
		s.identity = id
		return outcome.Outcome{}
	})
}
