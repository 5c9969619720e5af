// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// 100 callers who all want everything at once get it without a single 429, at the account's full rate.
func TestHundredCallersOnAQuietAccount(t *testing.T) {
	for _, wait := range []bool{true, false} {
		t.Run(fmt.Sprintf("wait=%v", wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				portal := newPortalLimit(20*time.Millisecond, answers(200, `{"versions":[]}`))
				config := testConfig(portal)
				config.Wait = wait
				config.Governor = NewGovernor(GovernorOptions{Limit: standardLimit})
				c := newClient(t, config)
				start := time.Now()
				var group sync.WaitGroup
				for range 100 {
					group.Go(func() {
						for range 10 {
							untilDone(t, func() error { _, err := c.KubernetesVersions(t.Context()); return err })
						}
					})
				}
				group.Wait()
				took := time.Since(start)
				if portal.refused != 0 {
					t.Errorf("%d of %d requests were rate limited", portal.refused, portal.requests)
				}
				if bound := 200 * time.Second; took > bound { // (1001-50)/5 s is what physics allows
					t.Errorf("1001 requests took %v, more than %v", took, bound)
				}
				t.Logf("%d requests in %v", portal.requests, took)
			})
		})
	}
}

// untilDone repeats a call as a controller would: at the time that the error names.
func untilDone(t *testing.T, call func() error) {
	for {
		err := call()
		if err == nil {
			return
		}
		at, ok := RetryAt(err)
		if !ok || !IsRateLimited(err) {
			t.Error(err)
			return
		}
		if !at.After(time.Now()) {
			t.Errorf("told to come back at %v, which is not in the future", at)
		}
		time.Sleep(time.Until(at))
	}
}

// While 200 polls queue, a mutation does not.
func TestMutationsGoBeforePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		stop := make(chan struct{})
		var polls atomic.Int64
		var group sync.WaitGroup
		for i := range 200 {
			group.Go(func() {
				for !closed(stop) {
					if ok := g.tryCall("job-"+strconv.Itoa(i), Poll); ok {
						polls.Add(1)
					}
				}
			})
		}
		time.Sleep(30 * time.Second)
		var worst time.Duration
		for i := range 60 { // one every 2 s
			start := time.Now()
			for !g.tryCall("cluster-"+strconv.Itoa(i), Mutation) {
			}
			worst = max(worst, time.Since(start))
			time.Sleep(time.Until(start.Add(2 * time.Second)))
		}
		close(stop)
		group.Wait()
		if worst >= 2*time.Second {
			t.Errorf("a mutation waited %v behind polls", worst)
		}
		t.Logf("worst wait %v, %d polls", worst, polls.Load())
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tryCall reserves once and spends, or sleeps until the time it is told.
func (g *Governor) tryCall(flow string, class Class) bool {
	ticket, err := g.Reserve(flow, class)
	if err != nil {
		at, _ := RetryAt(err)
		time.Sleep(time.Until(at))
		return false
	}
	if ok, _ := g.spend(ticket.t); ok {
		time.Sleep(40 * time.Millisecond)
		g.settle(ticket.t, true, &answer{status: 200, header: http.Header{}, at: time.Now()})
		return true
	}
	return false
}

// While mutations, or reads, queue without end, polls still get their fifth.
func TestPollsAreNotStarved(t *testing.T) {
	for _, class := range []Class{Mutation, Read} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGovernor(GovernorOptions{Limit: standardLimit, MaxOpen: 1000})
				served := compete(g, 10*time.Minute, class, Poll)
				if share := served[Poll] / (served[class] + served[Poll]); share < 0.19 || share > 0.25 {
					t.Errorf("polls got %.2f of the tokens, want a fifth", share)
				}
				if total := served[class] + served[Poll]; total < 2900 {
					t.Errorf("only %.0f of 3000 tokens were used", total)
				}
			})
		})
	}
}

// While mutations and polls queue without end, reads still get their tenth.
func TestReadsAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: standardLimit, MaxOpen: 1000})
		served := compete(g, 10*time.Minute, Mutation, Poll, Read)
		if share := served[Read] / (served[Mutation] + served[Poll] + served[Read]); share < 0.09 || share > 0.15 {
			t.Errorf("reads got %.2f of the tokens, want a tenth: %v", share, served)
		}
	})
}

// compete lets 100 flows of each class take all they can get for a time, and counts what each class got.
func compete(g *Governor, duration time.Duration, classes ...Class) map[Class]float64 {
	var mu sync.Mutex
	served := map[Class]float64{}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for _, class := range classes {
		for i := range 100 {
			group.Go(func() {
				for !closed(stop) {
					if g.tryCall(class.String()+strconv.Itoa(i), class) {
						mu.Lock()
						served[class]++
						mu.Unlock()
					}
				}
			})
		}
	}
	time.Sleep(duration)
	close(stop)
	group.Wait()
	return served
}

// A cluster with a hundred calls to make does not hold up one with a single call.
func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		for range 45 {
			g.tryCall("warm-up", Read)
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				ticket, err := g.Wait(t.Context(), "greedy", Read)
				if err != nil {
					t.Error(err)
				}
				if ok, _ := g.spend(ticket.t); ok {
					g.settle(ticket.t, true, nil)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		for !g.tryCall("modest", Read) {
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("the modest flow waited %v behind the greedy one", waited)
		}
		group.Wait()
	})
}

// A neighbour takes half of the account. Whether or not the portal tells what remains, fewer than 1 in 100 of our
// requests are refused, and most of what the neighbour leaves is used.
func TestNeighbourOnTheAccount(t *testing.T) {
	for _, headers := range []bool{true, false} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("headers=%v/seed=%d", headers, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					portal := newPortalLimit(20*time.Millisecond, answers(200, `{"versions":[]}`))
					portal.headers = headers
					config := testConfig(portal)
					config.Governor = NewGovernor(GovernorOptions{Rand: seeded(seed)})
					c := newClient(t, config)
					stop := make(chan struct{})
					var group sync.WaitGroup
					var theirs int
					group.Go(func() { theirs = portal.neighbour(seeded(seed), 2.5, stop) })
					for i := range 100 {
						group.Go(func() {
							for !closed(stop) {
								untilDone(t, func() error { return readWithTicket(t, c, "cluster-"+strconv.Itoa(i)) })
							}
						})
					}
					time.Sleep(10 * time.Minute)
					close(stop)
					group.Wait()
					if portal.refused*100 >= portal.requests {
						t.Errorf("%d of %d requests were rate limited", portal.refused, portal.requests)
					}
					if portal.requests < 1200 { // of about 1550
						t.Errorf("only %d requests in 10 minutes", portal.requests)
					}
					t.Logf("%d of %d requests were rate limited, %d of the neighbour's", portal.refused, portal.requests, theirs)
				})
			})
		}
	}
}

func readWithTicket(t *testing.T, c *Client, flow string) error {
	ticket, err := c.Reserve(flow, Read)
	if err != nil {
		return err
	}
	defer ticket.Release()
	_, err = c.KubernetesVersions(WithTicket(t.Context(), ticket))
	return err
}

// jobServer answers every mutation with a job that ends after a time.
type jobServer struct {
	takes time.Duration
	mu    sync.Mutex
	jobs  []time.Time
	polls int
}

func (s *jobServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/login":
		_, _ = io.WriteString(w, `{"token":"token-1","user":{"id":"user-1"}}`)
	case r.URL.Path == "/networks":
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"network-1"}`)
	case r.Method == http.MethodPost:
		s.jobs = append(s.jobs, time.Now())
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"jobId":"%d","status":"pending"}`, len(s.jobs)-1)
	case strings.HasPrefix(r.URL.Path, "/jobs/"):
		s.polls++
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/jobs/"))
		status := "running"
		if time.Since(s.jobs[n]) >= s.takes {
			status = "succeeded"
		}
		_, _ = fmt.Fprintf(w, `{"jobId":"%d","status":"%s"}`, n, status)
	default:
		_, _ = io.WriteString(w, `{"kubeconfig":"x"}`)
	}
}
