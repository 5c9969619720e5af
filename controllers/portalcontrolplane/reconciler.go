// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalcontrolplanes,verbs=get;list;watch;patch;adopt
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedrainrules,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusters.cluster.x-k8s.io;portalcontrolplanes.infrastructure.cluster.x-k8s.io,verbs=get
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;get;list;watch;patch

// Reconciler reconciles PortalControlPlanes.
type Reconciler struct {
	Client           client.Client
	Live             client.Reader // past the cache
	Identities       *identity.Resolver
	Access           *access.Kubeconfigs
	Ownership        *ownership.Owners
	Lifecycle        *lifecycle.Clusters
	Recorder         events.EventRecorder
	WatchFilterValue string
	// Calls are the creations under way, which outlive their passes.
	Calls *operation.Calls
	// Woken is the source of the objects for which the limiter has a token.
	Woken source.Source

	controller capicontroller.Controller
	memories   outcome.Memories[memory]
}

// step is one part of a pass. Its outcome becomes the condition.
type step struct {
	condition string
	run       func(context.Context, *scope) outcome.Outcome
}

// steps returns the parts of a pass. The poll of the operation in flight comes early, because its end changes what the API server
// answers. The steps that decide the next operation must not use an answer from before.
func (r *Reconciler) steps() []step {
	return []step{
		{infrav1.ProvisionedCondition, r.reconcileCluster},
		{infrav1.OperationInProgressCondition, r.reconcileOperation},
		{infrav1.KubeconfigReadyCondition, r.reconcileKubeconfig},
		{infrav1.ConnectedCondition, r.reconcileConnection},
		{infrav1.VersionUpToDateCondition, r.reconcileVersion},
		{infrav1.WorkersReadyCondition, r.reconcileWorkers},
	}
}

// Reconcile takes one portal cluster a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, reterr error) {
	ctx = cloud.WithFlow(ctx, req.String()) // the name of the object for the account's limiter, as Pass.Runner has it
	controlPlane := &infrav1.PortalControlPlane{}
	if err := r.Client.Get(ctx, req.NamespacedName, controlPlane); err != nil {
		r.Access.Workloads.Drop(req.NamespacedName)
		r.memories.Drop(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := util.GetOwnerCluster(ctx, r.Client, controlPlane.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := outcome.EnsurePaused(ctx, r.Client, cluster, controlPlane); err != nil || isPaused || requeue {
		if err == nil && isPaused {
			err = r.Calls.UnblockMove(ctx, r.writer(), controlPlane)
		}
		return ctrl.Result{}, err
	}
	if wait := ownerref.Awaited(controlPlane, cluster != nil); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	s, err := r.loadScope(ctx, controlPlane, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := controlPlane.Status.DeepCopy()
	defer func() {
		if err := r.patchStatus(ctx, s, before); err != nil && reterr == nil {
			reterr = err
		}
	}()
	switch {
	case s.unreadable != nil:
		return ctrl.Result{}, nil // status reports it, and a change of the annotation wakes the object
	case !controlPlane.DeletionTimestamp.IsZero():
		return r.reconcileDelete(ctx, s)
	}
	return r.reconcileNormal(ctx, s)
}

func (r *Reconciler) reconcileNormal(ctx context.Context, s *scope) (ctrl.Result, error) {
	if s.Cluster == nil {
		return ctrl.Result{}, nil // core sets the owner, which wakes the object
	}
	if err := r.Ownership.Begin(ctx, &s.Pass); err != nil {
		return ctrl.Result{}, err
	}
	var err error
	if s.members, err = workers.ReadMembers(ctx, r.Client, s.Cluster); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.workers(s).CorrectMembers(ctx, s.Cluster, s.members); err != nil {
		return ctrl.Result{}, err
	}
	var all []outcome.Outcome
	for _, step := range r.steps() {
		o := step.run(ctx, s)
		s.outcomes[step.condition] = o
		all = append(all, o)
		if o.Kind == outcome.Failed {
			break
		}
	}
	outcome.Log(ctx, all...)
	return outcome.Result(all...), outcome.FirstError(all...)
}

func (r *Reconciler) writer() persist.Writer {
	return persist.Writer{Client: r.Client, Live: r.Live, Wrote: r.wrote}
}

func (r *Reconciler) tools(s *scope) pass.Tools {
	return pass.Tools{Writer: r.writer(), Calls: r.Calls, Recorder: r.Recorder, Backoff: &r.memory(s).backoff, Progress: &r.memory(s).progress}
}

// wrote makes the next pass wait until the cache shows our own write.
func (r *Reconciler) wrote(obj client.Object) {
	if _, ours := obj.(*infrav1.PortalControlPlane); ours && r.controller != nil {
		r.controller.DeferNextReconcileUntilCacheUpToDate(obj,
			capicontroller.StructuredObject(infrav1.GroupVersion, "PortalControlPlane"), obj.GetResourceVersion())
	}
}

// scope is one pass over one PortalControlPlane: what it has read, and the outcomes of its steps.
type scope struct {
	pass.Pass

	members workers.Members // as the cache shows them at the start of the pass

	way           access.Way    // to the workload cluster. reconcileKubeconfig opens it
	serverVersion string        // of the API server. reconcileConnection reads it
	nodes         workers.Nodes // of the workload cluster. reconcileConnection reads them
	plan          *claims.Plan  // that reconcileWorkers has made, or nil

	outcomes map[string]outcome.Outcome
	// unreadable is the error of one of our annotations that was edited and cannot be read. Nothing is done then.
	unreadable error
}

// loadScope reads what every step needs.
func (r *Reconciler) loadScope(ctx context.Context, controlPlane *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{outcomes: map[string]outcome.Outcome{}}
	s.ControlPlane, s.Cluster = controlPlane, cluster
	s.Tools = r.tools(s)
	s.State, s.unreadable = operation.Load(controlPlane)
	var err error
	if s.unreadable == nil {
		err = s.Load(ctx, r.Client, r.Identities)
	}
	return s, err
}

// done reports whether the condition's step ran in this pass and is done.
func (s *scope) done(condition string) bool {
	o, reached := s.outcomes[condition]
	return reached && o.IsDone()
}

// memory is what the manager remembers of a portal cluster.
type memory struct {
	backoff  outcome.Backoff
	progress operation.LastProgress
	outage   outcome.Outage // of the connection to the workload cluster
	workers  workers.Memory
	created  sighting // of the object
	youngest sighting // of the objects that ask for workers
}

// sighting measures how old something is whose time was taken by the API server. That clock may be ahead of the manager's.
type sighting struct{ of, first time.Time }

// age returns how long ago the time was, or how long the manager has known it if that is longer.
func (s *sighting) age(of time.Time) time.Duration {
	if !s.of.Equal(of) || s.first.IsZero() {
		*s = sighting{of: of, first: time.Now()}
	}
	return max(time.Since(of), time.Since(s.first))
}

func (r *Reconciler) memory(s *scope) *memory {
	return r.memories.Of(client.ObjectKeyFromObject(s.ControlPlane))
}
