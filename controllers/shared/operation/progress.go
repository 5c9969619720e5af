// SPDX-License-Identifier: Apache-2.0

package operation

import "time"

// LastProgress remembers when the nodes last showed progress of an operation: an upgrade of 40 nodes takes hours, and is healthy while one node
// after the other changes. A manager that has just started remembers nothing, and counts from the first time that it sees the nodes. The
// zero value is ready to use.
type LastProgress struct {
	operation string // its ID
	shown     uint64
	since     time.Time
}

// See notes what the nodes show while the operation, which may be nil, is in flight. Any other value than before is progress.
func (p *LastProgress) See(op *Operation, shown uint64) {
	if op != nil && (p.operation != op.ID || p.shown != shown) {
		*p = LastProgress{operation: op.ID, shown: shown, since: time.Now()}
	}
}

// StuckIn returns how long it takes until the operation counts as stuck: when it has shown no progress for stuckAfter. If no nodes were seen
// since it began, its age counts (specification, Jobs). p may be nil.
func (p *LastProgress) StuckIn(op *Operation) time.Duration {
	since := op.Time.Time
	if p != nil && p.operation == op.ID && p.since.After(since) {
		since = p.since
	}
	return stuckAfter - time.Since(since)
}
