// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// granted reserves and fails the test unless it is granted.
func granted(t *testing.T, g *Governor, flow string, class Class) Ticket {
	t.Helper()
	ticket, err := g.Reserve(flow, class)
	if err != nil {
		t.Fatalf("%s: %v", flow, err)
	}
	return ticket
}

// refusedUntil reserves, fails the test if it is granted, and gives the time to come back.
func refusedUntil(t *testing.T, g *Governor, flow string, class Class) time.Time {
	t.Helper()
	_, err := g.Reserve(flow, class)
	at, ok := RetryAt(err)
	if !IsRateLimited(err) || !ok {
		t.Fatalf("%s: %v", flow, err)
	}
	return at
}

// send spends a ticket on a request that is answered at once.
func send(t *testing.T, g *Governor, ticket Ticket, status int, headers ...string) {
	t.Helper()
	if ok, err := g.spend(ticket.t); !ok {
		t.Fatalf("the ticket cannot be spent: %v", err)
	}
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	time.Sleep(time.Millisecond)
	g.settle(ticket.t, true, &answer{status: status, header: h, at: time.Now()})
}

func drain(t *testing.T, g *Governor) {
	for range 45 {
		send(t, g, granted(t, g, "drain", Read), 200)
	}
}

// A refused flow that comes back when it was told gets its ticket, in the order of arrival.
func TestReserveKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		drain(t, g)
		var at []time.Time
		for i := range 20 {
			at = append(at, refusedUntil(t, g, strconv.Itoa(i), Read))
		}
		for i := range 20 {
			time.Sleep(time.Until(at[i]))
			ticket, err := g.Reserve(strconv.Itoa(i), Read)
			for err != nil { // the estimate may have been a token short
				time.Sleep(minWait)
				ticket, err = g.Reserve(strconv.Itoa(i), Read)
			}
			if late := time.Since(at[i]); late > time.Second {
				t.Errorf("flow %d got its ticket %v after the time it was told", i, late)
			}
			send(t, g, ticket, 200)
		}
	})
}

// A flow that asks again and again gets no more than its place.
func TestReserveIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		drain(t, g)
		for range 50 {
			refusedUntil(t, g, "impatient", Read)
		}
		if n := g.Stats().Waiting[Read]; n != 1 {
			t.Errorf("the flow has %d places", n)
		}
	})
}

// A place whose flow does not come back is given up, and its token goes to others.
func TestPlacesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		drain(t, g)
		var last time.Time
		for i := range 100 {
			last = refusedUntil(t, g, strconv.Itoa(i), Read)
		}
		time.Sleep(time.Until(last.Add(placeGrace + time.Second)))
		if got := g.Stats(); got.Waiting[Read] != 0 || len(g.queue.aside) != 0 {
			t.Errorf("%d places and %d tokens are held for nobody", got.Waiting[Read], len(g.queue.aside))
		}
		drain(t, g) // all tokens are there for whoever asks
	})
}

// A flow that comes back too late starts anew, behind those who did not.
func TestLatePlacesGoToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: 1}) // a token a minute
		drain(t, g)
		late := refusedUntil(t, g, "late", Read)
		time.Sleep(time.Until(late.Add(placeGrace - 3*time.Second)))
		early := refusedUntil(t, g, "early", Read) // "late" has a token set aside
		time.Sleep(time.Until(late.Add(placeGrace + 2*time.Second)))
		granted(t, g, "early", Read)
		if again := refusedUntil(t, g, "late", Read); again.Before(early) {
			t.Errorf("who came too late is told %v, who came in time %v", again, early)
		}
	})
}

func TestTicketsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Burst: 10})
		free := func() float64 { g.mu.Lock(); defer g.mu.Unlock(); return g.free() }
		start := free()
		released := granted(t, g, "a", Mutation)
		if free() != start-1 {
			t.Error("a granted ticket takes no token")
		}
		released.Release()
		released.Release()
		if free() != start || g.Stats().Open != 0 {
			t.Errorf("releasing left %v tokens of %v, %d mutations open", free(), start, g.Stats().Open)
		}
		if ok, err := g.spend(released.t); ok || err != nil {
			t.Error("a released ticket was spent")
		}
		expired := granted(t, g, "b", Mutation)
		time.Sleep(ticketLife + time.Second)
		if ok, _ := g.spend(expired.t); ok || g.Stats().Open != 0 {
			t.Error("an expired ticket was spent, or keeps its slot")
		}
		spent := granted(t, g, "c", Mutation)
		send(t, g, spent, 200)
		spent.Release()
		if ok, _ := g.spend(spent.t); ok {
			t.Error("a ticket was spent twice")
		}
		if s := g.Stats(); s.Open != 0 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
		var none Ticket
		none.Release()
	})
}

// At most four mutations are between ticket and answer, and they do not hold up reads.
func TestOpenMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		var open []Ticket
		for i := range fewestOpen {
			open = append(open, granted(t, g, strconv.Itoa(i), Mutation))
		}
		for i := range 100 {
			refusedUntil(t, g, "waiting-"+strconv.Itoa(i), Mutation)
		}
		granted(t, g, "read", Read).Release()
		granted(t, g, "poll", Poll).Release()
		send(t, g, open[0], 202)
		granted(t, g, "waiting-0", Mutation)
		refusedUntil(t, g, "waiting-1", Mutation)
		open[1].Release()
		granted(t, g, "waiting-1", Mutation)
	})
}

// A 429 closes the gate for everybody, for as long as the portal says and a little more.
func TestRateLimitedClosesTheGate(t *testing.T) {
	for name, test := range map[string]struct {
		headers []string
		least   time.Duration
		most    time.Duration
	}{
		"seconds":         {[]string{"Retry-After", "7"}, 7 * time.Second, 8500 * time.Millisecond},
		"fraction":        {[]string{"Retry-After", "0.5"}, 500 * time.Millisecond, 700 * time.Millisecond},
		"date":            {[]string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"}, 8 * time.Second, 11 * time.Second},
		"date, own clock": {[]string{"Retry-After", "Sun, 02 Jan 2000 00:00:09 GMT", "Date", "Sun, 02 Jan 2000 00:00:01 GMT"}, 8 * time.Second, 10 * time.Second},
		"reset":           {[]string{"X-RateLimit-Reset", "946684809"}, 8 * time.Second, 11 * time.Second},
		"nothing":         {nil, time.Second, 1500 * time.Millisecond},
		"nonsense":        {[]string{"Retry-After", "soon", "X-RateLimit-Reset", "-1"}, time.Second, 1500 * time.Millisecond},
		"forever":         {[]string{"Retry-After", "99999999999999"}, time.Hour, 73 * time.Minute},
		"past":            {[]string{"Retry-After", "-5"}, time.Second, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the bubble's clock starts at 2000-01-01 00:00:00 UTC
				g := NewGovernor(GovernorOptions{Rand: seeded(1)})
				held := granted(t, g, "held", Mutation)
				send(t, g, granted(t, g, "a", Read), 429, test.headers...)
				closed := time.Now()
				if at := refusedUntil(t, g, "b", Read); at.Sub(closed) < test.least {
					t.Errorf("told to come back after %v", at.Sub(closed))
				}
				if ok, err := g.spend(held.t); ok || !IsRateLimited(err) {
					t.Errorf("a ticket from before was spent: %v", err)
				}
				until := g.Stats().ClosedTo.Sub(closed)
				if until < test.least || until > test.most {
					t.Errorf("closed for %v, want %v to %v", until, test.least, test.most)
				}
				time.Sleep(time.Until(g.Stats().ClosedTo))
				granted(t, g, "b", Read)
				refusedUntil(t, g, "c", Read) // one at first
			})
		})
	}
}

// 429s in a row back off exponentially; several answers to requests sent at the same time count as one.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Rand: seeded(1)})
		var last time.Duration
		for i := range 10 {
			a, b := granted(t, g, "a", Read), Ticket{}
			if i == 0 {
				b = granted(t, g, "b", Read)
				_, _ = g.spend(b.t)
			}
			send(t, g, a, 429, "Retry-After", "1")
			if i == 0 {
				share := g.Stats().Share
				g.settle(b.t, true, &answer{status: 429, header: http.Header{}, at: time.Now()})
				if g.Stats().Share != share || g.gate.strikes != 1 {
					t.Error("two answers to simultaneous requests counted twice")
				}
			}
			closed := time.Until(g.Stats().ClosedTo)
			if want := min(time.Second<<i, maxGateBackoff); closed < want || closed > want*5/4+10*time.Millisecond {
				t.Errorf("strike %d closes for %v, want about %v", i+1, closed, want)
			}
			if closed < last && last < maxGateBackoff {
				t.Errorf("strike %d closes for %v, the one before for %v", i+1, closed, last)
			}
			last = closed
			time.Sleep(closed)
		}
		send(t, g, granted(t, g, "a", Read), 200)
		time.Sleep(5 * time.Second)
		send(t, g, granted(t, g, "a", Read), 429, "Retry-After", "1")
		if closed := time.Until(g.Stats().ClosedTo); closed > 1300*time.Millisecond {
			t.Errorf("after a success a 429 closes for %v", closed)
		}
	})
}

// X-RateLimit-Remaining is believed, so that people on the same account find the rest of it.
func TestRemainingIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		refusedFlow := "was promised a token"
		g.mu.Lock()
		g.queue.place(placeKey{flow: refusedFlow, class: Read}, nil, time.Now())
		g.mu.Unlock()
		ticket := granted(t, g, "a", Read) // the other place gets a token set aside as well
		send(t, g, ticket, 200, "X-RateLimit-Remaining", "3")
		refusedUntil(t, g, refusedFlow, Read)
		time.Sleep(2 * time.Second)
		granted(t, g, refusedFlow, Read)
	})
}

// A higher tier is learned from X-RateLimit-Limit, nonsense is not.
func TestLimitIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		for _, test := range []struct {
			header string
			want   int
		}{{"1200", 1200}, {"0", 1200}, {"-5", 1200}, {"many", 1200}, {"99999999999", 1200}, {"60", 60}} {
			send(t, g, granted(t, g, "a", Read), 200, "X-RateLimit-Limit", test.header)
			if got := g.Stats().Limit; got != test.want {
				t.Errorf("%q makes the limit %d, want %d", test.header, got, test.want)
			}
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: 1, Burst: 1})
		granted(t, g, "a", Read)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := g.Wait(ctx, "b", Read)
		if !errors.Is(err, context.DeadlineExceeded) || IsUnknownOutcome(err) {
			t.Error(err)
		}
		if n := g.Stats().Waiting[Read]; n != 0 {
			t.Errorf("%d places left", n)
		}
	})
}

// A ticket in the context pays for the call, also when a login has to come first; without one the call takes its own.
func TestTicketPaysForTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(answersWith(202, `{"jobId":"j","status":"pending"}`))
		config.Governor = NewGovernor(GovernorOptions{Burst: 3, Limit: 1})
		c := newClient(t, config)
		g := config.Governor
		ticket := granted(t, g, "cluster", Mutation)
		defer ticket.Release()
		ctx := WithTicket(t.Context(), ticket)
		if _, err := c.ScaleCluster(ctx, "c", 3); err != nil {
			t.Fatal(err)
		}
		if ticket.t.state != ticketSpent {
			t.Error("the ticket was not spent")
		}
		if _, err := c.ScaleCluster(ctx, "c", 3); err != nil { // the third token
			t.Fatal(err)
		}
		_, err := c.ScaleCluster(ctx, "c", 3)
		at, ok := RetryAt(err)
		if !IsRateLimited(err) || !ok || IsUnknownOutcome(err) {
			t.Fatalf("%q: %v", which(t, err), err)
		}
		time.Sleep(time.Until(at))
		if _, err := c.ScaleCluster(ctx, "c", 3); err != nil {
			t.Error(err)
		}
	})
}

// What never reached the portal does not count against the limit.
func TestUnsentRequestsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		before := g.Stats().Tokens
		ticket := granted(t, g, "a", Mutation)
		if ok, err := g.spend(ticket.t); !ok {
			t.Fatal(err)
		}
		g.settle(ticket.t, false, nil)
		if s := g.Stats(); s.Tokens != before || s.Open != 0 || s.InFlight != 0 {
			t.Errorf("%+v, before there were %v tokens", s, before)
		}
	})
}

// A waiting client sends a rate-limited request again by itself, also a create: it was not executed.
func TestWaitingClientRepeats429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		config := testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/login" {
				return answersWith(200, "")(r)
			}
			if sent++; sent < 4 {
				return respond(429, ""), nil
			}
			return respond(202, `{"jobId":"j","status":"pending"}`), nil
		}))
		config.Wait = true
		start := time.Now()
		job, err := newClient(t, config).CreateCluster(t.Context(), CreateClusterRequest{})
		if err != nil || job.ID != "j" || sent != 4 {
			t.Errorf("%+v after %d requests: %v", job, sent, err)
		}
		if took := time.Since(start); took < 7*time.Second { // 1 + 2 + 4
			t.Errorf("backed off for %v only", took)
		}
	})
}
