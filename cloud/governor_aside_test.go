// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestMutationsThatMustNotBeOpened checks that mutations which must not be opened yet hold no tokens: those are for reads. Such a
// wait is no reason to look for a higher limit.
func TestMutationsThatMustNotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Burst: 2, MaxOpen: 1})
		granted(t, g, "open", Mutation)
		refusedUntil(t, g, "next", Mutation)
		refusedUntil(t, g, "after that", Mutation)
		time.Sleep(10 * time.Second)
		refusedUntil(t, g, "after that", Mutation)
		if share := g.Stats().Share; share != 1 {
			t.Errorf("the rate was explored: %v", share)
		}
		granted(t, g, "read", Read)
		refusedUntil(t, g, "second read", Read)
	})
}

// TestTokenAsideIsKept checks that a token which is set aside for a read is not given to a mutation that comes later.
func TestTokenAsideIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := spent(t)
		at := refusedUntil(t, g, "first", Read)
		time.Sleep(time.Until(at))
		refusedUntil(t, g, "second", Read) // from now on the token is set aside for the first
		refusedUntil(t, g, "later", Mutation)
		granted(t, g, "first", Read)
	})
}

// TestFifthTokenIsForPolls checks the order in which tokens go to mutations and polls that all wait.
func TestFifthTokenIsForPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{Limit: 60, Burst: 1, MaxOpen: 100, Wake: func(string) {}})
		send(t, g, granted(t, g, "m", Mutation), 202)
		var order strings.Builder
		waiting := map[string]Class{"p0": Poll, "p1": Poll, "p2": Poll}
		for i := range 12 {
			waiting["m"+strconv.Itoa(i)] = Mutation
		}
		for range 14 {
			for flow, class := range waiting {
				refusedUntil(t, g, flow, class)
			}
			time.Sleep(time.Second)
			for flow, class := range waiting {
				ticket, err := g.Reserve(flow, class)
				if err != nil {
					continue
				}
				if ok, err := g.spend(ticket.t); !ok {
					t.Fatal(err)
				}
				g.settle(ticket.t, true, nil)
				order.WriteByte(flow[0])
				delete(waiting, flow)
			}
		}
		if got := order.String(); got != "mmmmpmmmmpmmmm" {
			t.Errorf("tokens went to %s", got)
		}
	})
}
