// SPDX-License-Identifier: Apache-2.0

package world

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// scheduler decides by its seed what happens next: a pass of a controller, an informer that sees a change, or a chore. Only when nothing is
// due does the time go on.
type scheduler struct {
	seed   uint64
	random *rand.Rand
	start  time.Time
	steps  int

	mu     sync.Mutex
	log    []string // of all that happened
	digest hash.Hash
	queues []*queue
	caches []*informers
	chores []*chore
	kick   chan struct{}
}

// chore is something that happens some time after there was a reason for it, such as a garbage collection.
type chore struct {
	name  string
	after func() time.Duration
	do    func()
	due   time.Time // zero: there is no reason
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{seed: seed, random: newRand(seed, "scheduler"), start: time.Now(), digest: sha256.New(), kick: make(chan struct{}, 1)}
}

// newRand returns the random numbers for one purpose. Each purpose has its own, so what one draws does not change what others draw.
func newRand(seed uint64, purpose string) *rand.Rand {
	sum := sha256.Sum256([]byte(purpose))
	return rand.New(&locked{source: rand.NewPCG(seed, binary.BigEndian.Uint64(sum[:]))})
}

// locked is a source of random numbers for several goroutines.
type locked struct {
	mu     sync.Mutex
	source rand.Source
}

// Uint64 implements rand.Source.
func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

// note writes a line of the log.
func (s *scheduler) note(format string, args ...any) {
	line := fmt.Sprintf("%10.3f ", time.Since(s.start).Seconds()) + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line)
	_, _ = s.digest.Write([]byte(line + "\n"))
}

// fingerprint is the same for two runs in which the same happened.
func (s *scheduler) fingerprint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hex.EncodeToString(s.digest.Sum(nil))[:16]
}

// ask gives a reason for the chore.
func (s *scheduler) ask(c *chore) {
	s.mu.Lock()
	if c.due.IsZero() {
		c.due = time.Now().Add(c.after())
	}
	s.mu.Unlock()
	s.wake()
}

// wake makes run look again.
func (s *scheduler) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *scheduler) addChore(c *chore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chores = append(s.chores, c)
}

func (s *scheduler) removeChore(c *chore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chores = slices.DeleteFunc(s.chores, func(other *chore) bool { return other == c })
}

func (s *scheduler) addCache(c *informers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches = append(s.caches, c)
}

// remove forgets the queues and caches of a process.
func (s *scheduler) remove(queues []*queue, caches []*informers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return slices.Contains(queues, q) })
	s.caches = slices.DeleteFunc(s.caches, func(c *informers) bool { return slices.Contains(caches, c) })
}

// candidates returns what can happen now, in a fixed order, and when something else can.
func (s *scheduler) candidates() (all []func(), next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, q := range s.queues {
		requests, at := q.due(now)
		sooner(at)
		for _, r := range requests {
			all = append(all, func() { q.give(r) })
		}
	}
	for _, c := range s.caches {
		due, at := c.due(now)
		sooner(at)
		for _, i := range due {
			all = append(all, func() { i.see(s) })
		}
	}
	for _, c := range s.chores {
		if c.due.After(now) {
			sooner(c.due)
		} else if !c.due.IsZero() {
			all = append(all, func() {
				c.due = time.Time{}
				s.note("%s", c.name)
				c.do()
			})
		}
	}
	return all, next
}

// lookAgain is how often run looks although nothing is due: the portal changes without a write.
const lookAgain = 2 * time.Second

// mostSteps ends a life that does not rest, in which nothing more is reached. Most lives take 2,000 to 20,000 steps.
const mostSteps = 200_000

// run lets things happen until done holds, for at most the given time. It reports whether done holds.
func (s *scheduler) run(atMost time.Duration, done func() bool) bool {
	end := time.Now().Add(atMost)
	for {
		synctest.Wait()
		if done() {
			return true
		}
		if !time.Now().Before(end) || s.steps > mostSteps {
			return false
		}
		all, next := s.candidates()
		if len(all) == 0 {
			s.sleep(end, next)
			continue
		}
		s.steps++
		all[s.random.IntN(len(all))]()
	}
}

// sleep waits until something is due or somebody wakes it.
func (s *scheduler) sleep(end, next time.Time) {
	wait := min(time.Until(end), lookAgain)
	if !next.IsZero() {
		wait = min(wait, time.Until(next))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.kick:
	}
}

// due returns the requests that can be given to a worker now, in a fixed order, and when the next one can. The scheduler holds its lock.
func (q *queue) due(now time.Time) (all []reconcile.Request, next time.Time) {
	if q.idle == 0 {
		return nil, time.Time{}
	}
	for _, r := range slices.SortedFunc(maps.Keys(q.items), func(a, b reconcile.Request) int { return strings.Compare(a.String(), b.String()) }) {
		switch at := q.items[r]; {
		case q.processing[r]:
		case !at.After(now):
			all = append(all, r)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return all, next
}
