// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokenAsideIsKept checks that a token that is set aside for a read is not given to a later mutation.
func TestTokenAsideIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := spent(t)
		at := refusedUntil(t, l, "first", Read)
		time.Sleep(time.Until(at))
		refusedUntil(t, l, "second", Read) // now the token is set aside for the first flow
		refusedUntil(t, l, "later", Mutation)
		granted(t, l, "first", Read)
	})
}

// TestFifthTokenIsForPolls checks the order in which waiting mutations and polls get tokens.
func TestFifthTokenIsForPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 60, Burst: 1, MaxOpen: 100, Wake: func(string) {}})
		send(t, l, granted(t, l, "m", Mutation), 202)
		var order strings.Builder
		waiting := map[string]Class{"p0": Poll, "p1": Poll, "p2": Poll}
		for i := range 12 {
			waiting["m"+strconv.Itoa(i)] = Mutation
		}
		for range 14 {
			for flow, class := range waiting {
				refusedUntil(t, l, flow, class)
			}
			time.Sleep(time.Second)
			for flow, class := range waiting {
				r, err := l.Reserve(flow, class)
				if err != nil {
					continue
				}
				if ok, err := l.Spend(r); !ok {
					t.Fatal(err)
				}
				r.Settle(true, nil)
				order.WriteByte(flow[0])
				delete(waiting, flow)
			}
		}
		if got := order.String(); got != "mmmmpmmmmpmmmm" {
			t.Errorf("tokens went to %s", got)
		}
	})
}
