// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

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
