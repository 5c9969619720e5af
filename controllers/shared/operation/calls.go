// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

const (
	// answerInPass is how long a pass waits for the answer to a creation. Most portals answer within this time, and the pass goes on with the
	// answer. A pass that waited for a slow portal would keep a worker from other objects.
	answerInPass = 2 * time.Second
	// answerCheck is how often a pass looks whether the answer was stored. The write that stores it usually wakes the object sooner.
	answerCheck = 30 * time.Second
)

// callTimeout bounds a call that changes something at the portal, together with the storing of its intent and its result. The
// manager's grace period is longer, so SIGTERM lets both end. For a creation, creationTimeout takes its place (Calls.Drain).
const (
	callTimeout     = 80 * time.Second
	creationTimeout = cloud.CreationTime + 20*time.Second
)

// callTime returns how long a call for an operation of the type may take, together with the storing of its intent and its result.
func callTime(t Type) time.Duration {
	if t.class() == ratelimit.Creation {
		return creationTimeout
	}
	return callTimeout
}

// Calls are the creations that this process has sent and whose answers are not stored yet. Each of them runs in a goroutine of its own, which
// outlives the pass that has sent it. The zero value is ready to use.
type Calls struct {
	mu       sync.Mutex
	open     map[string]struct{} // ids of operations
	running  sync.WaitGroup
	draining bool
}

// Drain ends the sending of creations, and returns when all answers are stored or given up. All other work can go on.
func (c *Calls) Drain() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.running.Wait()
}

// Open returns the number of creations without an answer.
func (c *Calls) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// begin notes that the creation is about to be sent, unless no more are sent.
func (c *Calls) begin(op *Operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return false
	}
	if c.open == nil {
		c.open = map[string]struct{}{}
	}
	c.open[op.ID] = struct{}{}
	c.running.Add(1)
	return true
}

func (c *Calls) end(op *Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, op.ID)
	c.running.Done()
}

// awaits reports whether this process waits for the answer to the operation, which may be nil.
func (c *Calls) awaits(op *Operation) bool {
	if op == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[op.ID]
	return open
}

// UnblockMove removes clusterctl's block-move annotation from a paused object, so that its operation may move along. While this process
// waits for the answer to a creation, the annotation stays. It goes when the answer is stored.
func (c *Calls) UnblockMove(ctx context.Context, w persist.Writer, obj client.Object) error {
	if _, blocked := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return nil
	}
	if state, err := Load(obj); err == nil && c.awaits(state.Last) {
		return nil
	}
	return w.Change(ctx, obj, func() { delete(obj.GetAnnotations(), clusterctlv1.BlockMoveAnnotation) })
}

// answer is how a creation in the background ended.
type answer struct {
	outcome  outcome.Outcome
	err      error
	panicked any
}

// sendInBackground is send for a creation, and calls finish at its end. If the answer comes soon, the result is that of send. Otherwise the answer
// is stored when it comes, and the outcome is a Wait. The background works on copies, because the pass goes on with the object.
func (m Runner) sendInBackground(ctx context.Context, finish func(), before State, send Send) (outcome.Outcome, error) {
	op, state, own := m.State.Last, *m.State, m
	own.Object, own.State, own.Progress = m.Object.DeepCopyObject().(client.Object), &state, nil // a copy has the type of the original
	answered := make(chan answer, 1)
	go func() {
		defer finish()
		answered <- own.sendSafely(ctx, before, send)
	}()
	select {
	case a := <-answered:
		if a.panicked != nil {
			panic(a.panicked) // as if the pass had made the call itself
		}
		persist.Replace(m.Object, own.Object)
		*m.State = state
		return a.outcome, a.err
	case <-time.After(answerInPass):
		return m.awaiting(op), nil
	}
}

// sendSafely is send, but a panic ends up in the log and in the answer. It must not end the process, in which other answers are awaited.
func (m Runner) sendSafely(ctx context.Context, before State, send Send) (a answer) {
	log := ctrl.LoggerFrom(ctx).WithValues("operation", m.State.Last.ID)
	defer func() {
		if a.panicked = recover(); a.panicked != nil {
			log.Error(fmt.Errorf("panic: %v", a.panicked), "Failed to store the answer to a creation", "stack", string(debug.Stack()))
		}
	}()
	if a.outcome, a.err = m.send(ctx, before, send); a.outcome.Kind == outcome.Failed {
		log.Error(a.outcome.Err, "Failed to store the answer to a creation") // also for a pass that has not waited
	}
	return a
}

// awaiting returns the outcome while the portal has not answered the creation.
func (m Runner) awaiting(op *Operation) outcome.Outcome {
	return outcome.WaitFor(answerCheck, infrav1.CreatingReason, "waiting for the portal's answer to the %s, for up to %d minutes", op, int(callTime(op.Type).Minutes()))
}
