// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTenantsTakeTurns checks the order in which tokens go to two tenants, one of which has many clusters and came first:
// changes before creations, and within a class one cluster of each tenant in turn.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []string
		g := NewGovernor(GovernorOptions{Limit: 60, Burst: 1, Wake: func(flow string) { woken = append(woken, flow) }})
		send(t, g, granted(t, g, "drain", Read), 200)
		for _, want := range []struct {
			flow  string
			class Class
		}{
			{"big/1", Creation}, {"big/2", Creation}, {"big/3", Creation}, {"small/1", Creation},
			{"big/4", Mutation}, {"big/5", Mutation}, {"small/2", Mutation},
		} {
			refusedUntil(t, g, want.flow, want.class)
		}
		for i := range 7 {
			time.Sleep(1010 * time.Millisecond)
			synctest.Wait()
			if len(woken) != i+1 {
				t.Fatalf("after %d s, these were woken: %v", i+1, woken)
			}
			class := Creation
			if i < 3 {
				class = Mutation
			}
			send(t, g, granted(t, g, woken[i], class), 202)
		}
		if got, want := strings.Join(woken, " "), "big/4 small/2 big/5 big/1 small/1 big/2 big/3"; got != want {
			t.Errorf("tokens went to %s, want %s", got, want)
		}
	})
}

// TestTokenIsKeptForAMoment checks that a flow which was woken has two seconds to come. Then its token is another's, but it
// is served first when it comes.
func TestTokenIsKeptForAMoment(t *testing.T) {
	for late, kept := range map[time.Duration]bool{1900 * time.Millisecond: true, 2100 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			woken := 0
			g := NewGovernor(GovernorOptions{Limit: 6, Burst: 1, Wake: func(flow string) {
				if flow == "a" {
					woken++
				}
			}})
			send(t, g, granted(t, g, "drain", Read), 200)
			refusedUntil(t, g, "a", Read)
			time.Sleep(10*time.Second + late)
			synctest.Wait()
			if woken != 1 {
				t.Fatalf("woken %d times", woken)
			}
			ticket, err := g.Reserve("b", Read)
			if got := err != nil; got != kept {
				t.Errorf("%v late, the token is kept: %t", late, got)
			}
			if !kept {
				send(t, g, ticket, 200)
				refusedUntil(t, g, "c", Read)
				refusedUntil(t, g, "a", Read)
				time.Sleep(10100 * time.Millisecond)
			}
			granted(t, g, "a", Read)
		})
	}
}

// TestFlowsAreToldLaterThanTheyAreWoken checks that a flow which is woken is told to come back 5 s after its turn.
func TestFlowsAreToldLaterThanTheyAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: 60, Burst: 1, Wake: func(string) {}})
		send(t, g, granted(t, g, "drain", Read), 200)
		if told := time.Until(refusedUntil(t, g, "a", Read)).Round(10 * time.Millisecond); told != 6*time.Second {
			t.Errorf("told to come back after %v", told)
		}
	})
}

// TestOpenFollowsLatency checks how many mutations may be open after others were answered in a time: as many as the rate of
// five a second needs, four at least and 20, or what the options say, at most. A request that was not written does not count.
func TestOpenFollowsLatency(t *testing.T) {
	for name, test := range map[string]struct {
		maxOpen int
		takes   time.Duration
		unsent  bool
		want    int
	}{
		"fast":              {0, 100 * time.Millisecond, false, 4},
		"a second":          {0, time.Second, false, 5},
		"three seconds":     {0, 3 * time.Second, false, 15},
		"a minute":          {0, 59 * time.Second, false, 20},
		"fewer allowed":     {10, 3 * time.Second, false, 10},
		"one allowed":       {1, 3 * time.Second, false, 1},
		"not written":       {0, 3 * time.Second, true, 4},
		"just above a slot": {0, 3010 * time.Millisecond, false, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGovernor(GovernorOptions{Limit: 300, MaxOpen: test.maxOpen})
				for i := range 60 {
					ticket := granted(t, g, strconv.Itoa(i), Creation)
					if ok, err := g.spend(ticket.t); !ok {
						t.Fatal(err)
					}
					time.Sleep(test.takes)
					g.settle(ticket.t, !test.unsent, nil)
				}
				time.Sleep(20 * time.Second)
				count := 0
				for _, err := g.Reserve("0", Mutation); err == nil; _, err = g.Reserve(strconv.Itoa(count), Mutation) {
					count++
				}
				if count != test.want {
					t.Errorf("%d may be open, want %d", count, test.want)
				}
			})
		})
	}
}

// TestSettledMutationWakesTheNext checks that the end of an open mutation wakes the flow that waits for it, although there were
// tokens all the time.
func TestSettledMutationWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := ""
		g := NewGovernor(GovernorOptions{MaxOpen: 1, Wake: func(flow string) { woken += flow }})
		open := granted(t, g, "a", Mutation)
		refusedUntil(t, g, "b", Creation)
		time.Sleep(10 * time.Second)
		if synctest.Wait(); woken != "" {
			t.Fatalf("woken: %s", woken)
		}
		send(t, g, open, 202)
		if woken != "b" {
			t.Errorf("woken: %s", woken)
		}
		granted(t, g, "b", Creation)
	})
}

// TestParkedJobsHaveAShare checks that jobs which are not likely done are looked at while changes take all other tokens, but
// only those that were left alone for 30 s, and with half of the polls' share.
func TestParkedJobsHaveAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: 300, Wake: func(string) {}})
		finish(g, 0, 100)
		for i := range 44 {
			send(t, g, granted(t, g, strconv.Itoa(i), Read), 200)
		}
		start, looks := time.Now(), 0
		for time.Since(start) < time.Minute {
			for i := range 20 {
				if ticket, err := g.Reserve("m"+strconv.Itoa(i), Mutation); err == nil {
					send(t, g, ticket, 202)
				}
			}
			for i := range 60 {
				if ticket, err := lookAt(g, "tenant/"+strconv.Itoa(i), start); err == nil {
					if time.Since(start) < maxParked {
						t.Errorf("job %d is looked at after %v", i, time.Since(start))
					}
					looks++
					send(t, g, ticket, 200)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if looks < 13 || looks > 17 { // every tenth token of 30 s
			t.Errorf("%d looks at parked jobs", looks)
		}
	})
}

// TestFlowOfTheContext checks that a call without a ticket takes its place under the flow that the context names, and that
// this flow is woken; under its address nobody is.
func TestFlowOfTheContext(t *testing.T) {
	for _, named := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var woken []string
			config := testConfig(answersWith(200, `{"versions":[]}`))
			config.Governor = NewGovernor(GovernorOptions{Limit: 60, Burst: 2, Wake: func(flow string) { woken = append(woken, flow) }})
			c := newClient(t, config)
			ctx := t.Context()
			if named {
				ctx = WithFlow(ctx, "tenant/cluster")
			}
			if _, err := c.KubernetesVersions(ctx); err != nil { // and a login
				t.Fatal(err)
			}
			if _, err := c.KubernetesVersions(ctx); !IsRateLimited(err) {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if got := strings.Join(woken, " "); got != map[bool]string{true: "tenant/cluster"}[named] {
				t.Errorf("named %t, woken %q", named, got)
			}
			if _, err := c.KubernetesVersions(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnknownClass checks that a call of no class waits like a read.
func TestUnknownClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := spent(t)
		refusedUntil(t, g, "a", 0)
		if waiting := g.Stats().Waiting; waiting[Read] != 1 {
			t.Errorf("%v", waiting)
		}
	})
}
