// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"sync"
	"time"
)

// bridgeTime is how long a condition that is True outlives what it reports on being out of reach. A manager that starts connects to all
// workload clusters and logs in at the portal at once, so a single answer may be late. The ClusterCache gives a connection up after 50 s, and
// connects again 30 s after an attempt that failed.
const bridgeTime = time.Minute

// Bridge remembers since when something is out of reach. The zero value is ready to use.
type Bridge struct{ since sync.Map }

// Over returns the outcome of a step whose condition is now True or not. An outcome of the given reason says that something is out of reach.
// If the condition is True, it stays so until that has lasted for bridgeTime.
func (b *Bridge) Over(key string, isTrue bool, reason string, o Outcome) Outcome {
	switch {
	case o.Kind == Retry, o.Kind == Failed:
		return o // nothing is known of it
	case o.Kind != Wait, o.Reason != reason:
		b.Forget(key)
		return o
	}
	since, _ := b.since.LoadOrStore(key, time.Now())
	began, _ := since.(time.Time) // nothing else is stored
	left := bridgeTime - time.Since(began)
	if !isTrue || left <= 0 {
		return o
	}
	return RetryAfter(left).NoLaterThan(o.After)
}

// Forget drops what is known of something that is in reach, or gone.
func (b *Bridge) Forget(key string) { b.since.Delete(key) }
