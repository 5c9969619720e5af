// SPDX-License-Identifier: Apache-2.0

// Package fair keeps one namespace from holding all workers of a controller. Passes over clusters whose API server hangs take
// seconds each, and the owner of a namespace decides how many such clusters it has.
package fair

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// timesFree is how many times the idle workers one namespace may hold. A fixed share would leave workers idle if only one
// namespace exists, or let two namespaces hold all of them. With this rule, one namespace holds 15 of 20 workers, and three hold 6
// each.
const timesFree = 3

// Workers returns the options of a controller with n workers, of which no namespace can hold too many.
func Workers(n int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: n, NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return NewQueue(name, limiter, n)
	}}
}

// NewQueue returns the queue of a controller with n workers, which otherwise behaves like controller-runtime's.
func NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], workers int) priorityqueue.PriorityQueue[reconcile.Request] {
	return &queue{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
		free:          workers, busy: map[string]int{}, parked: map[string][]parked{},
	}
}

type parked struct {
	request  reconcile.Request
	priority int
}

// queue parks requests of a namespace that holds its share of the workers, until a worker is idle for them.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	mu     sync.Mutex
	free   int            // workers
	busy   map[string]int // workers, by namespace
	parked map[string][]parked
}

// GetWithPriority returns the next request whose namespace may have another worker.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	for {
		request, priority, shutdown := q.PriorityQueue.GetWithPriority()
		if shutdown || q.take(request, priority) {
			return request, priority, shutdown
		}
	}
}

// Get is GetWithPriority without the priority.
func (q *queue) Get() (reconcile.Request, bool) {
	request, _, shutdown := q.GetWithPriority()
	return request, shutdown
}

// take gives the request a worker, or parks it. A parked request stays unfinished in the queue, so it is not returned a second
// time.
func (q *queue) take(request reconcile.Request, priority int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full(request.Namespace) {
		q.parked[request.Namespace] = append(q.parked[request.Namespace], parked{request, priority})
		return false
	}
	q.free--
	q.busy[request.Namespace]++
	return true
}

// full reports whether the namespace holds its share of the workers. The last idle one is for a namespace that holds none.
func (q *queue) full(namespace string) bool {
	busy := q.busy[namespace]
	return busy >= timesFree*q.free || busy > 0 && q.free == 1
}

// Done ends a pass. For each namespace that may have another worker now, the request that was parked first is queued again.
func (q *queue) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	if q.busy[request.Namespace]--; q.busy[request.Namespace] == 0 {
		delete(q.busy, request.Namespace)
	}
	for namespace, waiting := range q.parked {
		if q.full(namespace) {
			continue
		}
		next := waiting[0]
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &next.priority}, next.request)
		q.PriorityQueue.Done(next.request)
		if q.parked[namespace] = waiting[1:]; len(waiting) == 1 {
			delete(q.parked, namespace)
		}
	}
}
