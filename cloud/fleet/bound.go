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

// account admits requests as the portal does: each at the earliest time at which there is a token for it.
type account struct{ full time.Time }

func (a *account) admit(at time.Time) time.Time {
	a.full = later(a.full, at)
	at = later(at, a.full.Add(interval-burst*interval))
	a.full = a.full.Add(interval)
	return at
}

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
// end on the account's rate is used as long as there is a request to be made.
func Bound(start time.Time, latency time.Duration, takes []time.Duration) []time.Time {
	a := &account{}
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
