// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// orders remembers in which order each portal removes workers, so that a new cluster starts with what others at the same portal
// have shown. The zero value is ready to use.
//
// An order counts for the clusters of its own namespace only. It comes from annotations that tenants can write, and a tenant must
// not decide which nodes of others are drained.
type orders struct{ sync.Map }

// shareOrder shares the order that the cluster has shown, and takes over what others have shown if the cluster has shown nothing.
func (r *Reconciler) shareOrder(s *scope) {
	namespaced := s.controlPlane.Namespace + " " + s.identity.BaseURL
	if learned := s.record.RemovalOrder; learned.Known() {
		r.orders.Store(namespaced, learned.Order)
	}
	shared, _ := r.orders.Load(namespaced)
	s.sharedOrder, _ = shared.(claims.Order)
}

// expectedOrder is the order in which the portal is expected to remove workers: the user's choice, else the order that the
// cluster has shown, else the order that others in the namespace have shown at the same portal, else a guess.
func (s *scope) expectedOrder() claims.Order {
	learned := s.record.RemovalOrder
	if stated := claims.Order(s.controlPlane.Spec.RemovalOrder); stated != "" {
		return stated
	}
	if learned.Known() {
		return learned.Order
	}
	return cmp.Or(s.sharedOrder, learned.Order, claims.Newest)
}

// recordOrder records what the last scale-down has shown about the order in which the portal removes workers.
func (r *Reconciler) recordOrder(ctx context.Context, s *scope) error {
	if !s.plan.OrderObserved {
		return nil
	}
	before := s.expectedOrder()
	err := r.change(ctx, s, func() {
		s.record.RemovalOrder, s.last.Before = s.plan.ObservedOrder, nil
		operation.PutRecord(s.controlPlane, s.record)
		operation.Put(s.controlPlane, s.last)
	})
	if err != nil {
		return err
	}
	if now := s.expectedOrder(); now != before {
		then := fmt.Sprintf("the provider expects the order %s", now)
		if now == claims.Random {
			then = "the provider expects no order, and asks the portal for fewer workers only when all drains have ended. " +
				"If that is wrong, set spec.removalOrder"
		}
		r.event(s, infrav1.EventUnexpectedWorkersRemoved, "scale", "The portal removed other workers than expected (%s first). From now on %s", before, then)
	}
	return nil
}
