// SPDX-License-Identifier: Apache-2.0

package wakeup

import (
	"context"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TestWake checks that a flow's object gets into the work queue of its kind, and into no other.
func TestWake(t *testing.T) {
	w := New()
	clusters, controlPlanes := queueOf(t, w.Clusters()), queueOf(t, w.ControlPlanes())
	w.Wake("team-a/cluster/network")
	w.Wake("team-b/control-plane")
	for want, queue := range map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]{
		"team-a/cluster": clusters, "team-b/control-plane": controlPlanes,
	} {
		if request, _ := queue.Get(); request.String() != want || queue.Len() != 0 {
			t.Errorf("%s is woken, and %d more, want %s", request, queue.Len(), want)
		}
	}
}

func queueOf(t *testing.T, s source.Source) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	context.AfterFunc(ctx, queue.ShutDown)
	if err := s.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// TestWakeDoesNotBlock checks that a limiter can wake more objects than there is room for.
func TestWakeDoesNotBlock(t *testing.T) {
	w := New()
	for i := range 2 * bufferSize {
		w.Wake("team/" + strconv.Itoa(i))
	}
	if n := len(w.controlPlanes); n != bufferSize {
		t.Errorf("%d objects are on their way", n)
	}
}
