// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// clusterIndex finds PortalClusters by the Cluster in their label.
const clusterIndex = "cluster"

func indexCluster(obj client.Object) []string {
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{name}
	}
	return nil
}

// controlPlaneChanged admits the changes of a PortalControlPlane that a PortalCluster reads: that it exists, its Cluster, whether it has a
// kubeconfig, and whether it has a portal cluster. A control plane writes its status many times while it is created.
var controlPlaneChanged = predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return hasKubeconfig(e.ObjectOld) != hasKubeconfig(e.ObjectNew) || mayHaveCluster(e.ObjectOld) != mayHaveCluster(e.ObjectNew)
	},
})

func hasKubeconfig(obj client.Object) bool {
	controlPlane, ok := obj.(*infrav1.PortalControlPlane)
	return ok && conditions.IsTrue(controlPlane, infrav1.KubeconfigReadyCondition)
}

// mayHaveCluster reports whether the portal cluster exists, or may exist because its creation runs or its answer was lost.
func mayHaveCluster(obj client.Object) bool {
	controlPlane, ok := obj.(*infrav1.PortalControlPlane)
	if !ok || controlPlane.Spec.ClusterID != "" {
		return ok
	}
	state, err := operation.Load(controlPlane)
	return err != nil || state.Op() != nil
}

// created returns what the portal cluster was created with, or what the creation in flight asks for. Of a cluster that the control plane
// did not create, that is not known.
func created(controlPlane *infrav1.PortalControlPlane) operation.Record {
	state, err := operation.Load(controlPlane)
	switch {
	case err != nil:
	case state.Op().Is(operation.Create) && state.Op().Record != nil:
		return *state.Op().Record
	case controlPlane.Spec.ClusterID != "" && state.Record.ClusterID == controlPlane.Spec.ClusterID:
		return state.Record
	}
	return operation.Record{}
}

// fromControlPlane wakes the PortalCluster of the same Cluster: it is provisioned once there is a kubeconfig, and its deletion waits for
// the control plane to go.
func (r *Reconciler) fromControlPlane(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	clusters := &infrav1.PortalClusterList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(obj.GetNamespace()), client.MatchingFields{clusterIndex: name},
		client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list PortalClusters for a watch event")
		return nil
	}
	for i := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
	return requests
}
