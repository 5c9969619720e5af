// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync/atomic"

	"golang.org/x/time/rate"
)

const (
	// maxUnderWay is how many bytes of unfinished answers one namespace may have. It is two lists of 600 Nodes of real kubelets.
	// Decoded, an answer takes about four times its size, so one namespace holds less than 100 MB of the manager's memory for a moment.
	maxUnderWay = MaxNodeList + maxAnswer
	// eventUnit is the unit that the size of an event is counted in.
	eventUnit = 16 << 10
	// eventBurst and eventRate are how many units one namespace may send. 1,000 Nodes report every 5 minutes: 3 a second.
	eventBurst = 5000
	eventRate  = 200
)

// tenant is what the API servers of one namespace have under way together.
type tenant struct {
	underWay atomic.Int64
	events   *rate.Limiter
}

func newTenant() *tenant { return &tenant{events: rate.NewLimiter(eventRate, eventBurst)} }

// hold adds bytes of an unfinished answer, and reports whether the namespace may have them.
func (t *tenant) hold(bytes int) bool { return t.underWay.Add(int64(bytes)) <= maxUnderWay }

func (t *tenant) release(bytes int) { t.underWay.Add(-int64(bytes)) }

// event waits until the namespace may send an event of that size. The API server is not read in the meantime.
func (t *tenant) event(ctx context.Context, bytes int) error {
	return t.events.WaitN(ctx, 1+bytes/eventUnit)
}
