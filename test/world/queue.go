// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is the work queue of a controller. The scheduler decides which request is next.
type queue struct {
	scheduler  *scheduler
	name       string
	limiter    workqueue.TypedRateLimiter[reconcile.Request]
	items      map[reconcile.Request]time.Time // when each is due
	processing map[reconcile.Request]bool
	idle       int // workers that wait
	next       chan reconcile.Request
	ended      chan struct{}
	end        sync.Once
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue{}

func (s *scheduler) newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) *queue {
	q := &queue{
		scheduler: s, name: name, limiter: limiter, items: map[reconcile.Request]time.Time{}, processing: map[reconcile.Request]bool{},
		next: make(chan reconcile.Request), ended: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = append(s.queues, q)
	slices.SortFunc(s.queues, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	return q
}

// give gives a request to a worker that waits.
func (q *queue) give(r reconcile.Request) {
	q.scheduler.note("%s %s", q.name, r)
	q.scheduler.mu.Lock()
	delete(q.items, r)
	q.processing[r] = true
	q.idle--
	q.scheduler.mu.Unlock()
	select {
	case q.next <- r:
	case <-q.ended:
	}
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	q.scheduler.mu.Lock()
	q.idle++
	q.scheduler.mu.Unlock()
	q.scheduler.wake()
	select {
	case r := <-q.next:
		return r, 0, false
	case <-q.ended:
		return reconcile.Request{}, 0, true
	}
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (reconcile.Request, bool) {
	r, _, ended := q.GetWithPriority()
	return r, ended
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(r reconcile.Request) {
	q.scheduler.mu.Lock()
	delete(q.processing, r)
	q.scheduler.mu.Unlock()
	q.scheduler.wake()
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue) AddAfter(r reconcile.Request, after time.Duration) {
	q.scheduler.mu.Lock()
	at := time.Now().Add(max(after, 0))
	if known, ok := q.items[r]; !ok || at.Before(known) {
		q.items[r] = at
	}
	q.scheduler.mu.Unlock()
	q.scheduler.wake()
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, r := range requests {
		after := o.After
		if o.RateLimited {
			after = max(after, q.limiter.When(r))
		}
		q.AddAfter(r, after)
	}
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(r reconcile.Request) { q.AddAfter(r, 0) }

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.limiter.When(r)) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue) Forget(r reconcile.Request) { q.limiter.Forget(r) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *queue) NumRequeues(r reconcile.Request) int { return q.limiter.NumRequeues(r) }

// Len implements workqueue.TypedInterface.
func (q *queue) Len() int {
	q.scheduler.mu.Lock()
	defer q.scheduler.mu.Unlock()
	return len(q.items)
}

// ShutDown implements workqueue.TypedInterface.
func (q *queue) ShutDown() { q.end.Do(func() { close(q.ended) }) }

// ShutDownWithDrain implements workqueue.TypedInterface.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown implements workqueue.TypedInterface.
func (q *queue) ShuttingDown() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}
