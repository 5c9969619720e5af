// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	firstRetry = 30 * time.Second // at most two attempts a minute
	lastRetry  = 10 * time.Minute
	lastWait   = 2 * time.Minute // for a wait, which ends without a person
	forgetAt   = time.Hour       // after the time of an attempt, its delay starts over
)

// Backoff remembers the attempts of one object that were refused. An attempt is a key and a fingerprint of everything that went into it. Until its
// time has come, the same attempt is not made again and has the same outcome. Another fingerprint starts over. The zero value is
// ready to use. It has a lock, because the answer to a creation may come during a pass.
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

// Do makes the attempt, unless it was refused and its time has not come. If it is refused, that is remembered. If it is done, the
// next one starts over.
func (b *Backoff) Do(key, attempt string, ask func() Outcome) Outcome {
	if refused, found := b.Recall(key, attempt); found {
		return refused
	}
	o := ask()
	if o.IsDone() {
		b.Forget(key)
	}
	return b.Refuse(key, attempt, o)
}

// Recall returns the outcome of the attempt if it was refused and its time has not come.
func (b *Backoff) Recall(key, attempt string) (Outcome, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.refused[key]
	r.outcome.RequeueAfter = time.Until(r.at)
	if r.attempt != attempt || r.outcome.RequeueAfter <= 0 {
		return Outcome{}, false
	}
	return r.outcome, true
}

// Stalls reports whether the last attempt of the key was refused, not long ago, and needs a person.
func (b *Backoff) Stalls(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, found := b.recent(key)
	return found && r.outcome.Kind == Stalled
}

// recent returns the last refusal of the key, unless it is forgotten. The caller holds the lock.
func (b *Backoff) recent(key string) (refusal, bool) {
	r, found := b.refused[key]
	return r, found && time.Since(r.at) <= forgetAt
}

// Refuse remembers the outcome of the attempt, and returns it with the time to try again: 30 s after the first refusal, twice as
// long after each further one up to 10 min, with up to a fifth more as jitter. A Wait starts with its own time and goes up to 2
// min. If the outcome has a longer time, which the portal asked for, that time is kept.
func (b *Backoff) Refuse(key, attempt string, o Outcome) Outcome {
	if o.Kind == Done || o.Kind == Retry {
		return o
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delay, most := firstRetry, lastRetry
	if o.Kind == Wait && o.RequeueAfter > 0 && o.RequeueAfter < lastWait {
		delay, most, o.RequeueAfter = o.RequeueAfter, lastWait, 0
	}
	if r, found := b.recent(key); found && r.attempt == attempt {
		delay = min(2*r.delay, most)
	}
	o.RequeueAfter = max(o.RequeueAfter, wait.Jitter(delay, 0.2))
	return b.store(key, refusal{attempt: attempt, outcome: o, delay: delay})
}

// Remember makes Recall return the outcome of the attempt until its time has come.
func (b *Backoff) Remember(key, attempt string, o Outcome) Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store(key, refusal{attempt: attempt, outcome: o})
}

// Forget makes the next attempt start over.
func (b *Backoff) Forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, key)
}

// store remembers the refusal and returns its outcome. If the attempt was refused in the same words before, the message keeps the
// request id of that refusal. Otherwise each attempt would change the condition, and wake everything that watches the object. The caller
// holds the lock.
func (b *Backoff) store(key string, r refusal) Outcome {
	if b.refused == nil {
		b.refused = map[string]refusal{}
	}
	if last := b.refused[key]; last.attempt == r.attempt && alike(last.outcome.Message, r.outcome.Message) {
		r.outcome.Message = last.outcome.Message
	}
	o := r.outcome
	r.outcome.Cause = nil // it is logged once
	r.at = time.Now().Add(o.RequeueAfter)
	b.refused[key] = r
	return o
}
