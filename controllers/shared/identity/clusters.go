// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// The status of a PortalClusterIdentity records which portal clusters belong to which namespace, as long as the namespace is
// allowed to use the identity. Users of the namespace cannot write it. So a namespace that is not allowed any more can delete its
// clusters and no others, even if its objects were changed. After clusterctl move, which drops status, only allowed namespaces
// are recorded again.

// RecordCluster records that the portal cluster belongs to an object of the namespace, which must be allowed to use the identity.
func (r *Resolver) RecordCluster(ctx context.Context, id Identity, namespace, clusterID string) error {
	if id.Object == nil || id.recorded(namespace, clusterID) {
		return nil
	}
	return r.changeClusters(ctx, id, func(all []infrav1.PortalIdentityCluster) []infrav1.PortalIdentityCluster {
		all = slices.DeleteFunc(all, func(c infrav1.PortalIdentityCluster) bool { return c.ID == clusterID })
		return append(all, infrav1.PortalIdentityCluster{ID: clusterID, Namespace: namespace})
	})
}

// ForgetCluster removes the record when the portal cluster is gone.
func (r *Resolver) ForgetCluster(ctx context.Context, id Identity, namespace, clusterID string) error {
	if id.Object == nil || !id.recorded(namespace, clusterID) {
		return nil
	}
	return r.changeClusters(ctx, id, func(all []infrav1.PortalIdentityCluster) []infrav1.PortalIdentityCluster {
		return slices.DeleteFunc(all, func(c infrav1.PortalIdentityCluster) bool { return c.ID == clusterID })
	})
}

// MayDelete is done if an object of the namespace may delete the portal cluster with the identity. A creation whose outcome is
// unknown has an empty clusterID, which is never recorded.
func (id Identity) MayDelete(namespace, clusterID string) outcome.Outcome {
	if id.Withdrawn && !id.recorded(namespace, clusterID) {
		return notAllowed(id.Shared, namespace)
	}
	return outcome.Outcome{}
}

func (id Identity) recorded(namespace, clusterID string) bool {
	return id.Object != nil && slices.Contains(id.Object.Status.Clusters, infrav1.PortalIdentityCluster{ID: clusterID, Namespace: namespace})
}

func (r *Resolver) changeClusters(
	ctx context.Context, id Identity, change func([]infrav1.PortalIdentityCluster) []infrav1.PortalIdentityCluster,
) error {
	before := id.Object.DeepCopy()
	id.Object.Status.Clusters = change(slices.Clone(before.Status.Clusters))
	err := r.Client.Status().Patch(ctx, id.Object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("record the clusters of PortalClusterIdentity %q: %w", id.Shared, err)
	}
	return nil
}
