// SPDX-License-Identifier: Apache-2.0

package outcome

import "time"

// outageTolerance is how long a condition stays True after the thing it reports on got out of reach. A manager that starts
// connects to all workload clusters and logs in at the portal at once, so a single answer may be late.
const outageTolerance = time.Minute

// Outage remembers since when something is out of reach. The zero value is ready to use.
type Outage struct{ since time.Time }

// Tolerate returns the outcome of a step whose condition is now True or not. An outcome with the given reason means that
// something is out of reach. A condition that is True then stays True until the outage has lasted for outageTolerance.
func (b *Outage) Tolerate(isTrue bool, reason string, o Outcome) Outcome {
	switch {
	case o.Kind == Retry, o.Kind == Failed:
		return o // nothing is known of it
	case o.Kind != Wait, o.Reason != reason:
		*b = Outage{}
		return o
	case b.since.IsZero():
		b.since = time.Now()
	}
	left := outageTolerance - time.Since(b.since)
	if !isTrue || left <= 0 {
		return o
	}
	return RetryAfter(left).NoLaterThan(o.RequeueAfter)
}
