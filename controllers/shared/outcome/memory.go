// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// Memories holds what a controller remembers of each of its objects from one pass to the next. It may be lost at any time. Passes of
// one object never overlap, so an M needs no lock, but the Backoff has one. The zero value is ready to use.
type Memories[M any] struct{ known sync.Map }

// Of returns the memory of the object.
func (m *Memories[M]) Of(object types.NamespacedName) *M {
	known, _ := m.known.LoadOrStore(object, new(M))
	return known.(*M) // nothing else is stored
}

// Drop forgets an object that is gone.
func (m *Memories[M]) Drop(object types.NamespacedName) { m.known.Delete(object) }

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

// Answers remembers what portals have answered, for all objects that would ask the same.
type Answers struct {
	*cache.Expiring
	flight singleflight.Group
}

// NewAnswers returns Answers that remember nothing yet.
func NewAnswers() *Answers { return &Answers{Expiring: cache.NewExpiring()} }

// Question identifies a request that only reads. A client represents an account: other credentials make another client.
type Question struct {
	Portal *cloud.Client
	What   string
}

type given[A any] struct {
	value   A
	outcome Outcome
}

// Ask returns the answer to the question. If several callers ask at the same time, one request is sent and all get its answer. Only
// an answer whose outcome is done is remembered, until it has the given age.
func Ask[A any](answers *Answers, q Question, age time.Duration, ask func() (A, Outcome)) (A, Outcome) {
	// %p, because the name of a client does not contain its credentials.
	got, _, _ := answers.flight.Do(fmt.Sprintf("%p %s", q.Portal, q.What), func() (any, error) {
		if known, found := answers.Get(q); found {
			return known, nil
		}
		value, o := ask()
		if o.IsDone() {
			answers.Set(q, given[A]{value, o}, age)
		}
		return given[A]{value, o}, nil
	})
	a := got.(given[A]) // a question has one kind of answer
	return a.value, a.outcome
}
