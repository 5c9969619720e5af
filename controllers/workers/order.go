// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"fmt"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// ExpectedOrder returns the order in which the portal is expected to remove workers: the user's choice, else the order that the
// cluster has shown, else a guess.
func ExpectedOrder(p *pass.Pass) infrav1.RemovalOrderStatus {
	if set := p.ControlPlane.Spec.RemovalOrder; set != "" {
		return infrav1.RemovalOrderStatus{Order: set, Source: infrav1.RemovalOrderSet}
	}
	if observed := p.Record.RemovalOrder.Order; observed != "" {
		return infrav1.RemovalOrderStatus{Order: infrav1.RemovalOrder(observed), Source: infrav1.RemovalOrderObserved}
	}
	return infrav1.RemovalOrderStatus{Order: infrav1.RemovalOrder(claims.Newest), Source: infrav1.RemovalOrderAssumed}
}

// recordOrder records what the last scale-down has shown about the order in which the portal removes workers.
func recordOrder(ctx context.Context, p *pass.Pass, plan claims.Plan) error {
	if !plan.OrderObserved {
		return nil
	}
	before := ExpectedOrder(p).Order
	err := p.Change(ctx, func(next *operation.State) {
		compared := *p.Last
		compared.Before = nil
		next.Record.RemovalOrder.Order, next.Last = plan.ObservedOrder, &compared
	})
	if err != nil {
		return err
	}
	if now := ExpectedOrder(p).Order; now != before {
		then := fmt.Sprintf("the provider expects the order %s", now)
		if claims.Order(now) == claims.Random {
			then = "the provider expects no order, and asks the portal for fewer workers only when all drains have ended. " +
				"If that is wrong, set spec.removalOrder"
		}
		p.Event(infrav1.EventUnexpectedWorkersRemoved, "scale", "The portal removed other workers than expected (%s first). From now on %s", before, then)
	}
	return nil
}
