// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// identityNamespace holds the Secrets of PortalClusterIdentities.
const identityNamespace = "capportal-system"

// startProvider starts the provider's manager, with the rights of its ServiceAccount and nothing in its memory.
func (w *World) startProvider() {
	w.incarnation++
	f := w.Faults.fence(w.seed, w.incarnation)
	f.wrote = w.noteWrite("provider")
	f.died = w.noteCrash
	w.calls = &operation.Calls{}
	options := processOptions{
		client: controllers.ClientOptions(), transform: controllers.Trim, rights: w.rights, fence: f,
		delay: w.delays(),
	}
	w.provider = w.startProcess("provider", options, func(ctx context.Context, p *process) error {
		return controllers.SetupWithManager(ctx, p, controllers.Options{
			IdentityNamespace: identityNamespace, AccountShare: 1, MaxOpenMutations: ratelimit.DefaultMaxOpen,
			ClusterConcurrency: 10, ControlPlaneConcurrency: 20, MachineConcurrency: 10,
			Transport: fenced{f, w.Portal.Transport()}, Workloads: newConnections(p), Metrics: prometheus.NewRegistry(),
			Rand: newRand(w.seed, fmt.Sprint("limiter ", w.incarnation)),
		}, w.calls)
	})
}

// The times that a manager has when it is asked to stop: until creations are answered, and then for what is under way.
const (
	answersTake = 340 * time.Second
	gracePeriod = 90 * time.Second
)

// Stop asks the provider to stop, as SIGTERM does, and starts it again. It sends no new creation and goes on until those that it has sent are
// answered. Then it finishes its passes, and begins none.
func (w *World) Stop() {
	p, incarnation := w.provider, w.incarnation
	w.note("provider %d is asked to stop", incarnation)
	crashed := func() bool { return w.incarnation != incarnation }
	go w.calls.Drain()
	w.goOn(answersTake, func() bool { return crashed() || w.calls.Open() == 0 })
	if crashed() {
		return
	}
	w.remove(p.queues, nil)
	p.cancel()
	ended := make(chan struct{})
	go func() {
		p.ended.Wait()
		close(ended)
	}()
	w.goOn(gracePeriod, func() bool {
		select {
		case <-ended:
			return true
		default:
			return crashed()
		}
	})
	if !crashed() {
		w.Restart()
	}
}

// Faults are what goes wrong around the provider, drawn from the seed. The zero value is none.
type Faults struct {
	// Stale is the part of all changes that the provider's cache sees late, by up to MostStale.
	Stale     float64
	MostStale time.Duration
	// Pauses is the part of the provider's writes before which it is held up, for up to MostPause, while others act.
	Pauses    float64
	MostPause time.Duration
	// Crashes is how often the provider is killed, each time before or after one of its next CrashWithin writes.
	Crashes     int
	CrashWithin int64
	// CrashAt kills the provider at this write, once, counted from its first start, before or after it. 0: none.
	CrashAt    int64
	CrashAfter bool
	// LateAt is the change, counted over all informers of the provider from 1 on, that is seen MostStale late. LostAt is one that is not seen at
	// all if the object changes again within ten minutes.
	LateAt, LostAt int64
}

// fence draws when this incarnation of the provider, counted from 1, crashes and pauses.
func (f Faults) fence(seed uint64, incarnation int) *fence {
	random := newRand(seed, fmt.Sprint("fence ", incarnation))
	at, after := int64(0), false
	switch {
	case f.CrashAt > 0 && incarnation == 1:
		at, after = f.CrashAt, f.CrashAfter
	case incarnation <= f.Crashes:
		at, after = 1+random.Int64N(f.CrashWithin), random.IntN(2) == 0
	}
	one := &fence{crash: func(write int64, isAfter bool) bool { return write == at && isAfter == after }}
	if f.Pauses > 0 {
		one.pause = func() time.Duration { return maybe(random, f.Pauses, f.MostPause) }
	}
	return one
}

// relist is after what time a change that was lost is found: watches end after five to ten minutes, and a new one begins with a list.
const relist = 10 * time.Minute

// delays draws how late the cache of this incarnation sees each change.
func (w *World) delays() func() (time.Duration, bool) {
	random := newRand(w.seed, fmt.Sprint("cache ", w.incarnation))
	return func() (time.Duration, bool) {
		w.shown++
		switch w.shown {
		case w.Faults.LateAt:
			return w.Faults.MostStale, false
		case w.Faults.LostAt:
			return relist, true
		}
		return maybe(random, w.Faults.Stale, w.Faults.MostStale), false
	}
}

// maybe returns a duration below most with the probability, and otherwise 0.
func maybe(random *rand.Rand, probability float64, most time.Duration) time.Duration {
	if most <= 0 || random.Float64() >= probability {
		return 0
	}
	return time.Duration(random.Int64N(int64(most)))
}
