// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileDelete removes the finalizer of the PortalCluster when its control plane, which needs the identity, is gone.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.portalCluster, infrav1.ClusterFinalizer) {
		return ctrl.Result{}, nil
	}
	left, err := r.controlPlane(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if left != "" {
		s.deleting = outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "waiting for PortalControlPlane %s to be deleted", left)
		return ctrl.Result{}, nil
	}
	s.deleting = outcome.WaitFor(0, infrav1.DeletingReason, "releasing the identity Secret")
	r.reportNetwork(s)
	r.reportVPC(s)
	if err := r.Identities.RemoveFinalizer(ctx, s.portalCluster); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.writer().Change(ctx, s.portalCluster, func() {
		controllerutil.RemoveFinalizer(s.portalCluster, infrav1.ClusterFinalizer)
	}))
}

// reportNetwork emits an event about the network that remains at the portal, or that may remain there because the outcome of its
// creation is unknown.
func (r *Reconciler) reportNetwork(s *scope) {
	network := ptr.Deref(s.portalCluster.Spec.Network, infrav1.PortalNetwork{})
	if id := s.portalCluster.Annotations[infrav1.NetworkAnnotation]; id != "" {
		r.event(s, infrav1.EventNetworkRemains, "DeleteNetwork",
			"Network %s, created from %s, remains at the portal: its API cannot delete networks. Delete it on the portal's pages", id, network.CIDR)
		return
	}
	state, err := operation.Load(s.portalCluster)
	cidr, op := network.CIDR, state.Op()
	if op != nil {
		cidr = op.Target
	}
	if cidr == "" || network.ID != "" || err == nil && !op.Is(operation.CreateNetwork) {
		return
	}
	r.Recorder.Eventf(s.portalCluster, nil, corev1.EventTypeWarning, infrav1.EventNetworkMayRemain, "Delete",
		"A network with CIDR %s may remain at the portal: the outcome of its creation is unknown. Look for a network with this CIDR on the "+
			"portal's pages, and delete it there if nothing uses it", cidr)
}

// reportVPC emits an event about the VPC that remains at the portal. It may have been there before. The action differs from the network's:
// the recorder counts two events of one object, reason and action as one, and drops the second text.
func (r *Reconciler) reportVPC(s *scope) {
	vpc := s.portalCluster.Spec.VPC
	if state, _ := operation.Load(s.portalCluster); ptr.Deref(vpc.Create, false) && (s.portalCluster.Status.VPCID != "" || state.Last.Is(operation.CreateVPC)) {
		r.event(s, infrav1.EventNetworkRemains, "DeleteVPC",
			"VPC %q, which may have been created for this object, remains at the portal: its API cannot delete VPCs. If nothing else uses the VPC, "+
				"delete it on the portal's pages", vpc.Name)
	}
}

// controlPlane returns the name of a PortalControlPlane that still needs this PortalCluster: the one that the Cluster refers to,
// or one with the Cluster's name in its label.
func (r *Reconciler) controlPlane(ctx context.Context, s *scope) (string, error) {
	if s.cluster != nil && s.cluster.Spec.ControlPlaneRef.Kind == "PortalControlPlane" {
		cp := &infrav1.PortalControlPlane{}
		key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.ControlPlaneRef.Name}
		if err := r.Live.Get(ctx, key, cp); err == nil {
			return cp.Name, nil
		} else if !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	name := s.portalCluster.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return "", nil
	}
	controlPlanes, err := identity.ControlPlanes(ctx, r.Live, s.portalCluster.Namespace, name)
	if err != nil || len(controlPlanes) == 0 {
		return "", err
	}
	return controlPlanes[0].Name, nil
}
