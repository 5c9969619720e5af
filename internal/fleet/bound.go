// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"
)

// The account's limit (specification, "Limits").
const (
	interval = time.Minute / 300 // between two tokens
	burst    = 50
)

// account admits requests as the portal does: each at the earliest time at which there is a token for it. Requests of others come in
// between, each when it is wanted.
type account struct {
	full   time.Time
	others []time.Time // when they are wanted, in this order
}

func (a *account) admit(at time.Time) time.Time {
	for len(a.others) > 0 && !a.others[0].After(a.earliest(at)) {
		a.take(a.earliest(a.others[0]))
		a.others = a.others[1:]
	}
	at = a.earliest(at)
	a.take(at)
	return at
}

func (a *account) earliest(at time.Time) time.Time {
	return later(at, a.full.Add(interval-burst*interval))
}
func (a *account) take(at time.Time) { a.full = later(a.full, at).Add(interval) }

// TimeFor returns how long the account needs for so many requests, if its burst is full.
func TimeFor(requests int) time.Duration { return max(0, time.Duration(requests-burst)*interval) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Bound returns when each cluster would be ready, in this order, if the client knew when each job ends. Such a client logs in, sends all
// creations as fast as the account allows, and then, in the order in which jobs end, looks once at each job and
// fetches its kubeconfig:
//
//	created(k) = admit(login)                  one after the other
//	looked(j)  = admit(created(j) + takes(j))  in the order of these ends
//	ready(j)   = admit(looked(j)) + latency
//
// No client is ready with all clusters earlier: a creation that waits for anything else ends later, and from the first
// end on the account's rate is used as long as there is a request to be made. The requests of others on the account go before its own.
func Bound(start time.Time, latency time.Duration, takes []time.Duration, others ...time.Time) []time.Time {
	a := &account{others: slices.SortedFunc(slices.Values(others), time.Time.Compare)}
	a.admit(start)
	var ends []time.Time
	for _, takes := range takes {
		ends = append(ends, a.admit(start.Add(latency)).Add(takes))
	}
	slices.SortFunc(ends, time.Time.Compare)
	ready := make([]time.Time, 0, len(ends))
	for _, end := range ends {
		ready = append(ready, a.admit(a.admit(end)).Add(latency))
	}
	return ready
}
