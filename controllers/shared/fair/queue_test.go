// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}}
}

// work runs n workers, whose passes end when the test says so. It counts passes under way by namespace, and all passes by object.
type work struct {
	busy  map[string]int
	total map[reconcile.Request]int
	end   map[string]chan struct{}
}

// start runs workers on a queue. It must be called in a bubble, which the test looks at only while all workers are blocked.
func start(queue priorityqueue.PriorityQueue[reconcile.Request], workers int, namespaces ...string) *work {
	w := &work{busy: map[string]int{}, total: map[reconcile.Request]int{}, end: map[string]chan struct{}{}}
	for _, namespace := range namespaces {
		w.end[namespace] = make(chan struct{})
	}
	lock := make(chan struct{}, 1)
	for range workers {
		go func() {
			for {
				one, _, shutdown := queue.GetWithPriority()
				if shutdown {
					return
				}
				lock <- struct{}{}
				w.busy[one.Namespace]++
				w.total[one]++
				<-lock
				<-w.end[one.Namespace]
				lock <- struct{}{}
				w.busy[one.Namespace]--
				<-lock
				queue.Done(one)
			}
		}()
	}
	return w
}

func newTestQueue(workers int) priorityqueue.PriorityQueue[reconcile.Request] {
	return NewQueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), workers)
}

// TestShare: namespaces whose passes hang hold most of the workers and never all. When the passes end, every object gets its own.
func TestShare(t *testing.T) {
	for _, test := range []struct{ workers, namespaces, most int }{
		{20, 1, 15}, {20, 2, 15}, {20, 6, 15}, {20, 12, 15}, {50, 1, 38}, {10, 1, 8}, {1, 1, 1},
	} {
		t.Run(fmt.Sprintf("%d namespaces at %d workers", test.namespaces, test.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const objects = 60
				queue := newTestQueue(test.workers)
				var names []string
				for i := range test.namespaces {
					names = append(names, fmt.Sprintf("hostile-%d", i))
				}
				w := start(queue, test.workers, append(names, "calm")...)
				for i := range objects {
					for _, name := range names {
						queue.Add(request(name, i))
					}
				}
				synctest.Wait()
				all := 0
				for _, name := range names {
					all += w.busy[name]
					if w.busy[name] > test.most {
						t.Errorf("%s holds %d workers, want at most %d", name, w.busy[name], test.most)
					}
				}
				if test.workers > 1 && (all == test.workers || all < test.workers/2) {
					t.Errorf("%d of %d workers are held", all, test.workers)
				}
				queue.Add(request("calm", 0))
				synctest.Wait()
				if test.workers > 1 && w.busy["calm"] != 1 {
					t.Error("another namespace waits")
				}
				for _, name := range append(names, "calm") {
					close(w.end[name])
				}
				synctest.Wait()
				if len(w.total) != objects*test.namespaces+1 {
					t.Errorf("%d objects had a pass, want %d", len(w.total), objects*test.namespaces+1)
				}
				queue.ShutDown()
			})
		})
	}
}

// TestParkedOnce: an object that changes while it is parked has one pass for all its changes, and one that changes in its pass has another.
func TestParkedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue(4)
		w := start(queue, 4, "a")
		for i := range 4 {
			queue.Add(request("a", i))
			synctest.Wait()
		}
		for range 3 {
			queue.Add(request("a", 3)) // parked
			queue.Add(request("a", 0)) // under way
			synctest.Wait()
		}
		close(w.end["a"])
		synctest.Wait()
		if w.total[request("a", 3)] != 1 || w.total[request("a", 0)] != 2 || len(w.total) != 4 {
			t.Errorf("passes: %v", w.total)
		}
		queue.ShutDown()
	})
}
