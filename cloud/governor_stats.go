// SPDX-License-Identifier: Apache-2.0

package cloud

import "time"

// GovernorStats is a governor's present state, for metrics.
type GovernorStats struct {
	Limit     int           // requests per minute, as configured or learned
	Tokens    float64       // in the bucket; negative after corrections
	LimitTold bool          // the portal has named the limit, or refused a request because of it
	Share     float64       // of the limit in use: AccountShare, less while others use more of the account, or more while it looks for a higher tier
	Waiting   map[Class]int // places in the queue, by class
	Open      int           // mutations between ticket and answer
	InFlight  int           // requests on the way
	Sent      int           // requests written since the governor was made
	Limited   int           // of which the portal refused because of the rate limit
	Jobs      int           // running, as far as ReserveLook was asked for them
	ClosedTo  time.Time     // when the gate opens again after a 429; in the past when it is open
}

// Stats reads the present state.
func (g *Governor) Stats() GovernorStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(time.Now())
	s := GovernorStats{
		Limit:     int(g.bucket.limit),
		LimitTold: g.bucket.told,
		Tokens:    g.bucket.level,
		Share:     g.bucket.part * g.bucket.share,
		Waiting:   map[Class]int{},
		Open:      g.open,
		InFlight:  g.inFlight,
		Sent:      g.sent,
		Limited:   g.limited,
		Jobs:      len(g.jobs.running),
		ClosedTo:  g.gate.until,
	}
	for class, lane := range g.queue.lanes {
		s.Waiting[class] = lane.size
	}
	return s
}
