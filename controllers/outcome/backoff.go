// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	firstRetry = 30 * time.Second // at most two attempts a minute
	lastRetry  = 10 * time.Minute
	lastWait   = 2 * time.Minute // for what passes by itself
	forgetAt   = time.Hour
)

// Backoff remembers attempts that were refused. The same attempt (same key, same fingerprint of everything that went
// into it) is not made again before its time, and tells the same outcome meanwhile; another fingerprint starts afresh.
// The zero value is ready to use.
type Backoff struct {
	mu      sync.Mutex
	refused map[string]refusal
}

type refusal struct {
	attempt string
	outcome Outcome
	delay   time.Duration
	at      time.Time
}

// Recall returns the outcome of the attempt if it was refused and its time has not come.
func (b *Backoff) Recall(key, attempt string) (Outcome, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, found := b.refused[key]
	if !found || r.attempt != attempt {
		return Outcome{}, false
	}
	left := time.Until(r.at)
	if left <= 0 {
		return Outcome{}, false
	}
	r.outcome.After = left
	return r.outcome, true
}

// Refuse remembers that the attempt ended in the outcome, and returns the outcome with the time to try again: 30 s
// after the first time, twice as long after each further one up to 10 min, with up to a fifth more as jitter. What
// passes by itself (Wait) begins with its own time and goes up to 2 min. A longer time in the outcome itself (the portal
// asked for it) is kept.
func (b *Backoff) Refuse(key, attempt string, o Outcome) Outcome {
	if o.Kind == Done || o.Kind == Retry {
		return o
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delay, most := firstRetry, lastRetry
	if o.Kind == Wait && o.After > 0 && o.After < lastWait {
		delay, most, o.After = o.After, lastWait, 0
	}
	if r, found := b.refused[key]; found && r.attempt == attempt {
		delay = min(2*r.delay, most)
	}
	b.sweep()
	wait := max(o.After, delay+rand.N(delay/5))
	o.After = wait
	b.refused[key] = refusal{attempt: attempt, outcome: o, delay: delay, at: time.Now().Add(wait)}
	return o
}

// Forget lets the next attempt start afresh.
func (b *Backoff) Forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, key)
}

func (b *Backoff) sweep() {
	if b.refused == nil {
		b.refused = map[string]refusal{}
	}
	for key, r := range b.refused {
		if time.Since(r.at) > forgetAt {
			delete(b.refused, key)
		}
	}
}
