// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Owners knows whose each portal cluster is.
type Owners struct {
	Client client.Client
	Live   client.Reader // past the cache
}

// PortalClusterIndex finds PortalControlPlanes by the id or the creation of their portal cluster.
const PortalClusterIndex = "portalCluster"

// IndexPortalCluster returns the id of the object's portal cluster, and the creation that it comes from. Clones of an object that
// is being created have no id in common yet, but the same creation.
func IndexPortalCluster(obj client.Object) []string {
	cp, ok := obj.(*infrav1.PortalControlPlane)
	if !ok {
		return nil
	}
	var keys []string
	if cp.Spec.ClusterID != "" {
		keys = append(keys, cp.Spec.ClusterID)
	}
	if state, _ := operation.Load(cp); state.Last.Is(operation.Create) { // also if its record cannot be read
		keys = append(keys, state.Last.ID)
	}
	return keys
}

// ownsCluster reports whether the object creates, has created or has claimed its portal cluster. A record that cannot be read
// counts as such.
func ownsCluster(cp *infrav1.PortalControlPlane) bool {
	record, err := operation.LoadRecord(cp)
	switch {
	case err != nil:
		return true
	case cp.Spec.ClusterID == "":
		state, _ := operation.Load(cp)
		return record.UID == cp.UID && state.Op().Is(operation.Create)
	}
	return record.UID == cp.UID && record.ClusterID == cp.Spec.ClusterID
}

// precedes reports whether a portal cluster that both objects name belongs to a rather than to b: to the owner, else to the older.
func precedes(a, b *infrav1.PortalControlPlane) bool {
	if ownsA, ownsB := ownsCluster(a), ownsCluster(b); ownsA != ownsB {
		return ownsA
	} else if !ownsA && a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() {
		return a.DeletionTimestamp.IsZero() // an object that is being deleted claims nothing
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) < 0
}

// Claim makes the object the owner of the portal cluster that spec.clusterID names, unless the cluster belongs to another object. It is
// done when the object owns the cluster.
func (k *Owners) Claim(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if o := k.settleCreation(ctx, p); !o.IsDone() {
		return o
	}
	owner, err := k.otherOwner(ctx, p)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case owner != nil:
		return k.leaveToOwner(ctx, p, owner)
	case p.Owns():
		return k.recordPortal(ctx, p)
	case p.BeingDeleted():
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so portal cluster %s is not taken over", p.ControlPlane.Spec.ClusterID)
	}
	id, adopted := p.ControlPlane.Spec.ClusterID, adopts(p)
	unsaid := adopted && p.ControlPlane.Spec.DeletionPolicy == ""
	err = p.Change(ctx, func(next *operation.State) {
		if adopted {
			*next = forgetCluster(p)
		}
		next.Record.UID, next.Record.ClusterID, next.Record.TakenOver = p.ControlPlane.UID, id, next.Record.TakenOver || adopted
		if unsaid {
			p.ControlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
		}
	})
	if err != nil {
		return outcome.Fail(err)
	}
	if adopted {
		p.Event(infrav1.EventPortalClusterAdopted, "Adopt", "Took over portal cluster %s, which this object did not create. "+
			"When this object is deleted, deletionPolicy %s applies", id, p.DeletionPolicy())
	}
	return outcome.RetryAfter(0) // after another check for other claims
}

// recordPortal records the portal of a cluster that the object owns, when the portal becomes known, or when a person has decided that it has
// a new URL. loadIdentity refuses an identity that names another portal. The operation in flight moves along, so its job is followed.
func (k *Owners) recordPortal(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if !p.Infrastructure.IsDone() || p.Record.Portal == p.Identity.Portal.Address() {
		return outcome.Outcome{}
	}
	home, now := p.Record.Portal, p.Identity.Portal.Address()
	if err := p.Change(ctx, func(next *operation.State) {
		next.Record.Portal = now
		if next.Last != nil && home != "" && next.Last.Portal == home {
			last := *next.Last
			last.Portal, next.Last = now, &last
		}
		if infrav1.DecisionTrust.MadeOn(p.ControlPlane, now) {
			delete(p.ControlPlane.Annotations, infrav1.DecisionAnnotation)
		}
	}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// FollowPortal moves a creation in flight along, when a person has decided that its portal has a new URL.
func (k *Owners) FollowPortal(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if !p.Infrastructure.IsDone() || p.Op() == nil || p.Op().Portal == "" {
		return outcome.Outcome{}
	}
	now := p.Identity.Portal.Address()
	if p.Op().Portal == now || !infrav1.DecisionTrust.MadeOn(p.ControlPlane, now) {
		return outcome.Outcome{}
	}
	if err := p.Change(ctx, func(next *operation.State) {
		last := *next.Last
		last.Portal, next.Last = now, &last
		if next.Record.Portal != "" {
			next.Record.Portal = now
		}
		delete(p.ControlPlane.Annotations, infrav1.DecisionAnnotation)
	}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// forgetCluster drops the record of another portal cluster. Nothing in it applies to the one that spec.clusterID names now,
// except for an endpoint that the user chose.
func forgetCluster(p *pass.Pass) operation.State {
	if !p.EndpointChosen() {
		p.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	}
	return operation.State{Record: operation.Record{Size: operation.SizeUnknown, AbandonedNames: p.Record.AbandonedNames}}
}

// adopts reports whether the object is about to claim a portal cluster that it did not create.
func adopts(p *pass.Pass) bool { return p.Record.ClusterID != p.ControlPlane.Spec.ClusterID }

// settleCreation ends an unfinished creation, because spec.clusterID names a cluster. If the portal shows that the creation made it,
// it is the object's own. Otherwise the object takes it over. The kubeconfig, which may show that, exists once the cluster runs.
func (k *Owners) settleCreation(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if !p.Op().Is(operation.Create) {
		return outcome.Outcome{}
	}
	if o := p.Existence(ctx); !o.IsDone() {
		return o
	}
	id, own := p.ControlPlane.Spec.ClusterID, false
	o := p.AskKubeconfig(ctx, pass.WhyMissing, func(config []byte) outcome.Outcome {
		var err error
		if own, err = k.shownAt(ctx, p, id, config); cloud.IsRateLimited(err) || cloud.IsUnavailable(err) {
			return outcome.FromPortalError(err)
		}
		return outcome.Outcome{}
	})
	if !o.IsDone() {
		return o
	}
	if !own {
		return k.endCreation(ctx, p, operation.Abandoned)
	}
	if o = k.endCreation(ctx, p, operation.Succeeded); o.IsDone() {
		p.Event(infrav1.EventPortalClusterAdopted, "Adopt", "Portal cluster %s has the name that was generated for this object, so this object "+
			"created it. When this object is deleted, deletionPolicy %s applies", id, p.DeletionPolicy())
	}
	return o
}

// endCreation ends an unfinished creation. If it succeeded, it made the cluster that spec.clusterID names.
func (k *Owners) endCreation(ctx context.Context, p *pass.Pass, result operation.Result) outcome.Outcome {
	return p.Runner().Finish(ctx, result, p.ControlPlane.Spec.ClusterID)
}

// leaveToOwner leaves the portal cluster to its owner. If both objects own it, this one gives up its claim.
func (k *Owners) leaveToOwner(ctx context.Context, p *pass.Pass, owner *infrav1.PortalControlPlane) outcome.Outcome {
	id, other := p.ControlPlane.Spec.ClusterID, client.ObjectKeyFromObject(owner)
	if p.Owns() {
		err := p.Change(ctx, func(next *operation.State) { next.Record.ClusterID = "" })
		if err != nil {
			return outcome.Fail(err)
		}
		p.Warn(infrav1.EventOwnershipGivenUp, "Adopt", "Gave up portal cluster %s, because PortalControlPlane %s also owns it and is older. "+
			"The kubeconfig Secret of this object is not changed", id, other)
	}
	return outcome.StallFor(0, infrav1.OwnedByAnotherReason, "portal cluster %s belongs to PortalControlPlane %s. This object changes nothing at the "+
		"portal, and deleting it deletes nothing there. Delete this object. Or, to take the cluster over, set "+
		"spec.deletionPolicy of the other one to Retain and delete it", id, other)
}

// otherOwner returns the PortalControlPlane that the portal cluster belongs to, or nil if it belongs to this object. It considers
// the objects of every namespace that the manager sees.
func (k *Owners) otherOwner(ctx context.Context, p *pass.Pass) (*infrav1.PortalControlPlane, error) {
	seen := map[types.UID]bool{p.ControlPlane.UID: true}
	first := p.ControlPlane
	for _, key := range IndexPortalCluster(p.ControlPlane) {
		all := &infrav1.PortalControlPlaneList{}
		if err := k.Client.List(ctx, all, client.MatchingFields{PortalClusterIndex: key}); err != nil {
			return nil, fmt.Errorf("list the PortalControlPlanes of portal cluster %s: %w", p.ControlPlane.Spec.ClusterID, err)
		}
		for i := range all.Items {
			cached := &all.Items[i]
			if seen[cached.UID] || p.Owns() && !ownsCluster(cached) {
				continue // an owner does not ask the API server about objects that own nothing
			}
			seen[cached.UID] = true
			other := &infrav1.PortalControlPlane{}
			err := k.Live.Get(ctx, client.ObjectKeyFromObject(cached), other)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read PortalControlPlane %s: %w", client.ObjectKeyFromObject(cached), err)
			}
			if err == nil && nameSamePortalCluster(p.ControlPlane, other, key) && precedes(other, first) && samePortal(p, other) {
				first = other
			}
		}
	}
	if first == p.ControlPlane {
		return nil, nil // that there is no other owner is not an error
	}
	return first, nil
}

// nameSamePortalCluster reports whether two objects with a common key name the same portal cluster. If both name one by its id,
// a common creation does not matter.
func nameSamePortalCluster(cp, other *infrav1.PortalControlPlane, key string) bool {
	id, of := cp.Spec.ClusterID, other.Spec.ClusterID
	return slices.Contains(IndexPortalCluster(other), key) && (id == "" || of == "" || id == of)
}

// samePortal reports whether the other object may belong to the portal of this one, as far as it has recorded that.
func samePortal(p *pass.Pass, other *infrav1.PortalControlPlane) bool {
	mine := p.Record.Portal
	if mine == "" && p.Identity.Portal != nil {
		mine = p.Identity.Portal.Address()
	}
	record, _ := operation.LoadRecord(other) // one that cannot be read names no portal
	return mine == "" || record.Portal == "" || mine == record.Portal
}

// unclaimed reports whether the object has not claimed a portal cluster that is probably its own. It is a copy of the owner, or a
// person has set the id of the cluster that its lost creation made.
func unclaimed(p *pass.Pass) bool {
	copied := p.Record.UID != "" && p.Record.UID != p.ControlPlane.UID && !adopts(p)
	return !p.Owns() && (copied || p.Op().Is(operation.Create))
}

// MayDelete reports whether the object may ask the portal to delete its cluster: it owns the cluster, or a person has confirmed the
// deletion of a cluster without owner.
func (k *Owners) MayDelete(ctx context.Context, p *pass.Pass) (bool, error) {
	if p.ControlPlane.Spec.ClusterID == "" {
		return true, nil // the creation under way has to end first
	}
	if !p.Owns() && !deletionConfirmed(p) {
		return false, nil
	}
	owner, err := k.otherOwner(ctx, p)
	return owner == nil, err
}
