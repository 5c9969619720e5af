// SPDX-License-Identifier: Apache-2.0

// Package portalbootstrapconfig reconciles PortalBootstrapConfigs. The portal bootstraps its nodes itself, but a ClusterClass
// cannot be written without a bootstrap template. Core also waits until the bootstrap data of a Machine or a MachinePool is
// ready, and wants the name of the Secret with the data. So the controller creates a Secret that is empty.
//
// There is no finalizer: core deletes a PortalBootstrapConfig with its Machine or MachinePool, and the Secret goes with its
// owner.
package portalbootstrapconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalbootstrapconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalbootstrapconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalbootstrapconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinepools;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;get;patch

// dataKey is the key of the data in the Secret, as the contract for bootstrap providers requires.
const dataKey = "value"

// retryAfter is how often a name that is taken is checked again: Secrets are not watched.
const retryAfter = time.Minute

// Reconciler reconciles PortalBootstrapConfigs.
type Reconciler struct {
	// Client must read Secrets live.
	Client           client.Client
	Recorder         events.EventRecorder
	WatchFilterValue string
}

// SetupWithManager adds the reconciler to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "portalbootstrapconfig")
	clusterToConfigs, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.PortalBootstrapConfigList{}, mgr.GetScheme())
	if err != nil {
		return err
	}
	return capicontroller.NewControllerManagedBy(mgr, log).
		For(&infrav1.PortalBootstrapConfig{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToConfigs), predicates.ClusterPausedTransitions(mgr.GetScheme(), log)).
		Complete(ctx, r)
}

// Reconcile creates the Secret of one PortalBootstrapConfig, and keeps it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &infrav1.PortalBootstrapConfig{}
	if err := r.Client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	clusterName, err := r.ownerCluster(ctx, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	var cluster *clusterv1.Cluster
	if clusterName != "" {
		if cluster, err = util.GetClusterByName(ctx, r.Client, config.Namespace, clusterName); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if isPaused, requeue, err := outcome.EnsurePaused(ctx, r.Client, cluster, config); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	if !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := config.Status.DeepCopy()
	o := r.reconcileSecret(ctx, config, clusterName)
	outcome.ReportNotPaused(config)
	outcome.Report(config, infrav1.ReadyCondition, o)
	if err := outcome.PatchStatus(ctx, r.Client, config, &config.Status, *before); err != nil {
		return ctrl.Result{}, err
	}
	outcome.WarnStalled(r.Recorder, config, before.Conditions, map[string]outcome.Outcome{infrav1.ReadyCondition: o})
	return outcome.Result(o), outcome.FirstError(o)
}

// ownerCluster returns the name of the Cluster whose Machine or MachinePool owns the config, or "".
func (r *Reconciler) ownerCluster(ctx context.Context, config *infrav1.PortalBootstrapConfig) (string, error) {
	machine, err := util.GetOwnerMachine(ctx, r.Client, config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if machine != nil {
		return machine.Spec.ClusterName, nil
	}
	pool, err := util.GetOwnerMachinePool(ctx, r.Client, config.ObjectMeta)
	if err != nil || pool == nil {
		return "", client.IgnoreNotFound(err)
	}
	return pool.Spec.ClusterName, nil
}

// reconcileSecret makes sure that the Secret exists and belongs to the config, and names it in status. A restore may have removed
// the Secret, or its owner.
func (r *Reconciler) reconcileSecret(ctx context.Context, config *infrav1.PortalBootstrapConfig, clusterName string) outcome.Outcome {
	if clusterName == "" {
		if ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
			return outcome.Outcome{}
		}
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no Machine or MachinePool owns this object. Core sets the owner")
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(config), secret)
	if apierrors.IsNotFound(err) {
		return r.createSecret(ctx, config, clusterName)
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("read Secret %s: %w", config.Name, err))
	}
	owned, err := ownerref.RestoreSecret(ctx, r.Client, config, clusterName, secret)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case !owned:
		return outcome.StallFor(retryAfter, infrav1.SecretTakenReason,
			"Secret %s belongs to another owner, so it is neither read nor changed. Delete it if it is not needed", secret.Name)
	}
	return created(config)
}

func (r *Reconciler) createSecret(ctx context.Context, config *infrav1.PortalBootstrapConfig, clusterName string) outcome.Outcome {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: config.Namespace, Name: config.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{dataKey: {}},
	}
	if err := controllerutil.SetControllerReference(config, secret, r.Client.Scheme()); err != nil {
		return outcome.Fail(err)
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return outcome.RetryAfter(0) // another writer created it since it was read
		}
		return outcome.Fail(fmt.Errorf("create Secret %s: %w", secret.Name, err))
	}
	return created(config)
}

// created sets the Secret's name in status. Core reads the name once.
func created(config *infrav1.PortalBootstrapConfig) outcome.Outcome {
	config.Status.DataSecretName = config.Name
	config.Status.Initialization.DataSecretCreated = ptr.To(true)
	return outcome.Outcome{}
}
