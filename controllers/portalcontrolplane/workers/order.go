// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// ExpectedOrder returns the order in which the portal is expected to remove workers: the user's choice, else the order that the
// cluster has shown, else a guess.
func ExpectedOrder(p *pass.Pass) infrav1.RemovalOrderStatus {
	if set := p.ControlPlane.Spec.RemovalOrder; set != "" {
		return infrav1.RemovalOrderStatus{Order: set, Source: infrav1.RemovalOrderSet}
	}
	expected := infrav1.RemovalOrderStatus{Source: infrav1.RemovalOrderAssumed}
	order, observed := p.Record.RemovalOrder.Expected()
	if expected.Order = infrav1.RemovalOrder(order); observed {
		expected.Source = infrav1.RemovalOrderObserved
	}
	return expected
}

// recordOrder records what the last scale-down has shown about the order in which the portal removes workers, and warns of nodes that it
// removed although they were not drained, also if the user has set the order.
func recordOrder(ctx context.Context, p *pass.Pass, plan claims.Plan) error {
	if !plan.OrderObserved {
		return nil
	}
	before := ExpectedOrder(p)
	err := p.Change(ctx, func(next *operation.State) {
		compared := *p.Last
		compared.Before = nil
		next.Record.RemovalOrder, next.Last = plan.Evidence, &compared
	})
	if err != nil {
		return err
	}
	now := ExpectedOrder(p)
	if now.Order != before.Order {
		then := fmt.Sprintf("the provider expects the order %s", now.Order)
		if removal.Order(now.Order) == removal.Random {
			then = "the provider expects no order, and asks the portal for fewer workers only when all drains have ended. " +
				"If that is wrong, set spec.removalOrder"
		}
		p.Event(infrav1.EventUnexpectedWorkersRemoved, "scale", "The portal removed other workers than expected (%s first). From now on %s", before.Order, then)
	}
	p.WarnUndrained(plan.Undrained, whyUndrained(before))
	return nil
}

// whyUndrained says why the provider expected other nodes to go, and what a person can do.
func whyUndrained(expected infrav1.RemovalOrderStatus) string {
	can := "To have the portal asked only when every node that it may remove is drained, set spec.drainBeforeScaleDown to Possible"
	switch {
	case expected.Order == infrav1.RemovalOrderRandom:
		return "No order of removal is expected"
	case expected.Source == infrav1.RemovalOrderSet:
		return fmt.Sprintf("spec.removalOrder is %s: if that is wrong, correct it. %s", expected.Order, can)
	}
	return fmt.Sprintf("The order %s was expected (%s), and among nodes that one job has made it is a guess until a removal shows one. %s",
		expected.Order, strings.ToLower(string(expected.Source)), can)
}

// readPositions reads the portal's list of instances if nodes may be told apart by it, once for each set of nodes, and reports whether it
// did. The portal need not have such a list: then the provider guesses without it.
func (m *Memory) readPositions(ctx context.Context, p *pass.Pass, workers []corev1.Node) (read bool, err error) {
	var names []string
	for _, n := range workers {
		names = append(names, n.Name)
	}
	of := strings.Join(names, " ")
	if of == m.positionsOf || !p.Infrastructure.IsDone() {
		return false, nil
	}
	instances, err := p.Identity.Portal.Instances(ctx)
	switch {
	case cloud.IsRateLimited(err):
		return false, err
	case err != nil:
		ctrl.LoggerFrom(ctx).V(1).Info("The portal's list of instances cannot be read, so the order of the nodes is guessed without it", "error", err.Error())
	}
	m.positions, m.positionsOf = map[string]int{}, of
	for i, instance := range instances {
		if instance.Name != "" {
			m.positions[instance.Name] = i + 1
		}
	}
	return true, nil
}
