// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// grantTime is how long a grant counts in addition to the cache. The intent of the operation is stored within a moment, and the
// cache shows it soon after.
const grantTime = time.Minute

// grants are what control planes were allowed to ask for a short time ago. The cache may not show it yet. The zero value is ready
// to use.
type grants struct {
	mu sync.Mutex
	of map[types.UID]grant
}

type grant struct {
	usage
	at time.Time
}

// Grant is done if the limits of the identity allow the control plane to ask the portal for a cluster of so many workers. The
// grant counts at once, so if two ask for the last place at the same moment, one is refused. If the portal is not asked after
// all, call ReturnGrant.
//
// Two gaps remain. Managers that watch different namespaces count only what they see, so two managers may both give away the last
// place. A portal cluster without an owning object, because its deletionPolicy was Retain or finalizers were removed, does not
// count.
func (r *Resolver) Grant(ctx context.Context, id Identity, cp *infrav1.PortalControlPlane, workers int) outcome.Outcome {
	if id.Limits == nil {
		return outcome.Outcome{}
	}
	r.grants.mu.Lock()
	defer r.grants.mu.Unlock()
	maps.DeleteFunc(r.grants.of, func(_ types.UID, g grant) bool { return time.Since(g.at) > grantTime })
	others, err := r.othersOf(ctx, id.Shared, cp)
	if err != nil {
		return outcome.Fail(fmt.Errorf("count the clusters of PortalClusterIdentity %q: %w", id.Shared, err))
	}
	wanted := usage{1, workers}
	if o := id.checkUsage(wanted, usageOf(cp), others); !o.IsDone() {
		return o
	}
	if r.grants.of == nil {
		r.grants.of = map[types.UID]grant{}
	}
	r.grants.of[cp.UID] = grant{wanted, time.Now()}
	return outcome.Outcome{}
}

// ReturnGrant gives a grant back because the portal was not asked, or refused.
func (r *Resolver) ReturnGrant(cp *infrav1.PortalControlPlane) {
	r.grants.mu.Lock()
	defer r.grants.mu.Unlock()
	delete(r.grants.of, cp.UID)
}

// othersOf counts the clusters and workers of the identity's other control planes. It reads the cache, so no call is made while
// the grants are locked.
func (r *Resolver) othersOf(ctx context.Context, name string, except *infrav1.PortalControlPlane) (sum usage, err error) {
	users, err := r.sharedUsers(ctx, name)
	if err != nil {
		return sum, err
	}
	clusters := map[string]map[string]bool{} // names of Clusters, by namespace
	for i := range users {
		if clusters[users[i].Namespace] == nil {
			clusters[users[i].Namespace] = map[string]bool{}
		}
		clusters[users[i].Namespace][clusterName(&users[i])] = true
	}
	byPortalCluster := map[string]usage{} // several objects may name one portal cluster
	for namespace, names := range clusters {
		all := &infrav1.PortalControlPlaneList{}
		if err := r.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
			return sum, err
		}
		for i := range all.Items {
			cp := &all.Items[i]
			same := cp.UID == except.UID || cp.Spec.ClusterID != "" && cp.Spec.ClusterID == except.Spec.ClusterID
			if key := portalClusterKey(cp); !same && names[clusterName(cp)] {
				byPortalCluster[key] = byPortalCluster[key].max(usageOf(cp)).max(r.grants.of[cp.UID].usage)
			}
		}
	}
	for _, c := range byPortalCluster {
		sum = sum.plus(c)
	}
	return sum, nil
}

func portalClusterKey(cp *infrav1.PortalControlPlane) string {
	if cp.Spec.ClusterID != "" {
		return cp.Spec.ClusterID
	}
	return string(cp.UID)
}

// clusterName returns the name of the Cluster that the object belongs to.
func clusterName(obj client.Object) string {
	for _, ref := range obj.GetOwnerReferences() {
		if group, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster" {
			return ref.Name
		}
	}
	return obj.GetLabels()[clusterv1.ClusterNameLabel]
}

// usageOf returns how much the portal cluster of the object counts: the stored size, or the size that a request under way may
// lead to. An object whose annotations cannot be read may have a portal cluster.
func usageOf(cp *infrav1.PortalControlPlane) usage {
	op, unreadable := operation.Load(cp)
	record, err := operation.LoadRecord(cp)
	var c usage
	if cp.Spec.ClusterID != "" || unreadable != nil || err != nil || op.Is(operation.Create) && op.InFlight() {
		c.clusters = 1
	}
	if c.clusters == 0 {
		return c
	}
	if cp.Status.Workers != nil {
		c.workers = int(cp.Status.Workers.Nodes)
	}
	if err == nil && record.Size > operation.SizeUnknown {
		c.workers = record.Size
	}
	switch {
	case op.Is(operation.Create) && op.InFlight():
		c.workers = max(c.workers, op.Nodes)
	case op.Is(operation.Scale) && op.InFlight():
		c.workers = max(c.workers, op.Size())
	}
	return c
}
