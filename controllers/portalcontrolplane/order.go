// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// expectedOrder returns the order in which the portal is expected to remove workers: the user's choice, else the order that the
// cluster has shown, else a guess.
func (s *scope) expectedOrder() infrav1.RemovalOrderStatus {
	if set := s.ControlPlane.Spec.RemovalOrder; set != "" {
		return infrav1.RemovalOrderStatus{Order: set, Source: infrav1.RemovalOrderSet}
	}
	if observed := s.Record.RemovalOrder.Order; observed != "" {
		return infrav1.RemovalOrderStatus{Order: infrav1.RemovalOrder(observed), Source: infrav1.RemovalOrderObserved}
	}
	return infrav1.RemovalOrderStatus{Order: infrav1.RemovalOrder(claims.Newest), Source: infrav1.RemovalOrderAssumed}
}

// recordOrder records what the last scale-down has shown about the order in which the portal removes workers.
func (r *Reconciler) recordOrder(ctx context.Context, s *scope) error {
	if !s.plan.OrderObserved {
		return nil
	}
	before := s.expectedOrder().Order
	err := s.Change(ctx, func(next *operation.State) {
		compared := *s.Last
		compared.Before = nil
		next.Record.RemovalOrder.Order, next.Last = s.plan.ObservedOrder, &compared
	})
	if err != nil {
		return err
	}
	if now := s.expectedOrder().Order; now != before {
		then := fmt.Sprintf("the provider expects the order %s", now)
		if claims.Order(now) == claims.Random {
			then = "the provider expects no order, and asks the portal for fewer workers only when all drains have ended. " +
				"If that is wrong, set spec.removalOrder"
		}
		s.Event(infrav1.EventUnexpectedWorkersRemoved, "scale", "The portal removed other workers than expected (%s first). From now on %s", before, then)
	}
	return nil
}
