// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// portalClusterIndex finds PortalControlPlanes by the id or the creation of their portal cluster.
const portalClusterIndex = "portalCluster"

// indexPortalCluster returns the id of the object's portal cluster, and the creation that it comes from. Clones of an object that
// is being created have no id in common yet, but the same creation.
func indexPortalCluster(obj client.Object) []string {
	cp, ok := obj.(*infrav1.PortalControlPlane)
	if !ok {
		return nil
	}
	var keys []string
	if cp.Spec.ClusterID != "" {
		keys = append(keys, cp.Spec.ClusterID)
	}
	if state, err := operation.Load(cp); err == nil && state.Last.Is(operation.Create) {
		keys = append(keys, state.Last.ID)
	}
	return keys
}

// ownsCluster reports whether the object creates, has created or has claimed its portal cluster. A record that cannot be read
// counts as such.
func ownsCluster(cp *infrav1.PortalControlPlane) bool {
	state, err := operation.Load(cp)
	switch {
	case err != nil:
		return true
	case cp.Spec.ClusterID == "":
		return state.Record.UID == cp.UID && state.Op().Is(operation.Create)
	}
	return state.Record.UID == cp.UID && state.Record.ClusterID == cp.Spec.ClusterID
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

// claim makes the object the owner of the portal cluster that spec.clusterID names, unless the cluster belongs to another object. It is
// done when the object owns the cluster.
func (r *Reconciler) claim(ctx context.Context, s *scope) outcome.Outcome {
	if o := r.settleCreation(ctx, s); !o.IsDone() {
		return o
	}
	owner, err := r.otherOwner(ctx, s)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case owner != nil:
		return r.leaveToOwner(ctx, s, owner)
	case s.Owns():
		return r.recordPortal(ctx, s)
	case s.BeingDeleted():
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so portal cluster %s is not taken over", s.ControlPlane.Spec.ClusterID)
	}
	id, adopted := s.ControlPlane.Spec.ClusterID, s.adopts()
	unsaid := adopted && s.ControlPlane.Spec.DeletionPolicy == ""
	err = s.Change(ctx, func(next *operation.State) {
		if adopted {
			*next = s.forgetCluster()
		}
		next.Record.UID, next.Record.ClusterID, next.Record.TakenOver = s.ControlPlane.UID, id, next.Record.TakenOver || adopted
		if unsaid {
			s.ControlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
		}
	})
	if err != nil {
		return outcome.Fail(err)
	}
	if adopted {
		s.Event(infrav1.EventPortalClusterAdopted, "Adopt", "Took over portal cluster %s, which this object did not create. "+
			"When this object is deleted, deletionPolicy %s applies", id, s.DeletionPolicy())
	}
	return outcome.RetryAfter(0) // after another check for other claims
}

// recordPortal records the portal of a cluster that the object owns, when the portal becomes known. loadIdentity refuses an identity
// that names another portal later.
func (r *Reconciler) recordPortal(ctx context.Context, s *scope) outcome.Outcome {
	if s.Record.Portal == "" && s.Infrastructure.IsDone() {
		if err := s.Change(ctx, func(next *operation.State) { next.Record.Portal = s.Identity.Portal.Address() }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Outcome{}
}

// forgetCluster drops the record of another portal cluster. Nothing in it applies to the one that spec.clusterID names now,
// except for an endpoint that the user chose.
func (s *scope) forgetCluster() operation.State {
	if !s.EndpointChosen() {
		s.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	}
	return operation.State{Record: operation.Record{Size: operation.SizeUnknown, AbandonedNames: s.Record.AbandonedNames}}
}

// adopts reports whether the object is about to claim a portal cluster that it did not create.
func (s *scope) adopts() bool { return s.Record.ClusterID != s.ControlPlane.Spec.ClusterID }

// settleCreation ends an unfinished creation, because spec.clusterID names a cluster. If the portal shows that the creation made it,
// it is the object's own. Otherwise the object takes it over. The kubeconfig, which may show that, exists once the cluster runs.
func (r *Reconciler) settleCreation(ctx context.Context, s *scope) outcome.Outcome {
	if !s.Op().Is(operation.Create) {
		return outcome.Outcome{}
	}
	if o := s.Existence(ctx); !o.IsDone() {
		return o
	}
	id, own := s.ControlPlane.Spec.ClusterID, false
	o := s.AskKubeconfig(ctx, pass.WhyMissing, func(config []byte) outcome.Outcome {
		var err error
		if own, err = r.shownAt(ctx, s, id, config); cloud.IsRateLimited(err) || cloud.IsUnavailable(err) {
			return outcome.FromPortalError(err)
		}
		return outcome.Outcome{}
	})
	if !o.IsDone() {
		return o
	}
	if !own {
		return r.endCreation(ctx, s, operation.Abandoned)
	}
	if o = r.endCreation(ctx, s, operation.Succeeded); o.IsDone() {
		s.Event(infrav1.EventPortalClusterAdopted, "Adopt", "Portal cluster %s has the name that was generated for this object, so this object "+
			"created it. When this object is deleted, deletionPolicy %s applies", id, s.DeletionPolicy())
	}
	return o
}

// endCreation ends an unfinished creation. If it succeeded, it made the cluster that spec.clusterID names.
func (r *Reconciler) endCreation(ctx context.Context, s *scope, result operation.Result) outcome.Outcome {
	return s.Runner().Finish(ctx, result, s.ControlPlane.Spec.ClusterID)
}

// leaveToOwner leaves the portal cluster to its owner. If both objects own it, this one gives up its claim.
func (r *Reconciler) leaveToOwner(ctx context.Context, s *scope, owner *infrav1.PortalControlPlane) outcome.Outcome {
	id, other := s.ControlPlane.Spec.ClusterID, client.ObjectKeyFromObject(owner)
	if s.Owns() {
		err := s.Change(ctx, func(next *operation.State) { next.Record.ClusterID = "" })
		if err != nil {
			return outcome.Fail(err)
		}
		s.Warn(infrav1.EventOwnershipGivenUp, "Adopt", "Gave up portal cluster %s, because PortalControlPlane %s also owns it and is older. "+
			"The kubeconfig Secret of this object is not changed", id, other)
	}
	return outcome.StallFor(0, infrav1.OwnedByAnotherReason, "portal cluster %s belongs to PortalControlPlane %s. This object changes nothing at the "+
		"portal, and deleting it deletes nothing there. Delete this object. Or, to take the cluster over, set "+
		"spec.deletionPolicy of the other one to Retain and delete it", id, other)
}

// otherOwner returns the PortalControlPlane that the portal cluster belongs to, or nil if it belongs to this object. It considers
// the objects of every namespace that the manager sees.
func (r *Reconciler) otherOwner(ctx context.Context, s *scope) (*infrav1.PortalControlPlane, error) {
	seen := map[types.UID]bool{s.ControlPlane.UID: true}
	first := s.ControlPlane
	for _, key := range indexPortalCluster(s.ControlPlane) {
		all := &infrav1.PortalControlPlaneList{}
		if err := r.Client.List(ctx, all, client.MatchingFields{portalClusterIndex: key}); err != nil {
			return nil, fmt.Errorf("list the PortalControlPlanes of portal cluster %s: %w", s.ControlPlane.Spec.ClusterID, err)
		}
		for i := range all.Items {
			cached := &all.Items[i]
			if seen[cached.UID] || s.Owns() && !ownsCluster(cached) {
				continue // an owner does not ask the API server about objects that own nothing
			}
			seen[cached.UID] = true
			other := &infrav1.PortalControlPlane{}
			err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), other)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read PortalControlPlane %s: %w", client.ObjectKeyFromObject(cached), err)
			}
			if err == nil && nameSamePortalCluster(s.ControlPlane, other, key) && precedes(other, first) && r.samePortal(ctx, s.ControlPlane, other) {
				first = other
			}
		}
	}
	if first == s.ControlPlane {
		return nil, nil //nolint:nilnil // that there is no other owner is not an error
	}
	return first, nil
}

// nameSamePortalCluster reports whether two objects with a common key name the same portal cluster. If both name one by its id,
// a common creation does not matter.
func nameSamePortalCluster(cp, other *infrav1.PortalControlPlane, key string) bool {
	id, of := cp.Spec.ClusterID, other.Spec.ClusterID
	return slices.Contains(indexPortalCluster(other), key) && (id == "" || of == "" || id == of)
}

// samePortal reports whether the objects may belong to the same portal. An identity that cannot be read may name any portal.
func (r *Reconciler) samePortal(ctx context.Context, a, b *infrav1.PortalControlPlane) bool {
	portalA, portalB := r.portalOf(ctx, a), r.portalOf(ctx, b)
	return portalA == "" || portalB == "" || portalA == portalB
}

// portalOf returns the URL of the object's portal, or "" if that is not known.
func (r *Reconciler) portalOf(ctx context.Context, cp *infrav1.PortalControlPlane) string {
	cluster, err := util.GetOwnerCluster(ctx, r.Client, cp.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ""
	}
	portalCluster, err := pass.PortalClusterOf(ctx, r.Client, cluster, cp)
	if err != nil || portalCluster == nil {
		return ""
	}
	return cloud.Address(r.Identities.BaseURL(ctx, cp.Namespace, portalCluster.Spec.IdentityRef))
}

// unclaimed reports whether the object has not claimed a portal cluster that is probably its own. It is a copy of the owner, or a
// person has set the id of the cluster that its lost creation made.
func (s *scope) unclaimed() bool {
	copied := s.Record.UID != "" && s.Record.UID != s.ControlPlane.UID && !s.adopts()
	return !s.Owns() && (copied || s.Op().Is(operation.Create))
}

// mayDelete reports whether the object may ask the portal to delete its cluster: it owns the cluster, or a person has confirmed the
// deletion of a cluster without owner.
func (r *Reconciler) mayDelete(ctx context.Context, s *scope) (bool, error) {
	if s.ControlPlane.Spec.ClusterID == "" {
		return true, nil // the creation under way has to end first
	}
	if !s.Owns() && !s.deletionConfirmed() {
		return false, nil
	}
	owner, err := r.otherOwner(ctx, s)
	return owner == nil, err
}
