// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestOpenRequests checks the trade-off of MaxOpen. If the portal takes 3 s to answer a creation, N open requests give N/3 creations a
// second, up to the account's rate, and a crash leaves N results unknown.
func TestOpenRequests(t *testing.T) {
	const clusters, slow = 90, 3 * time.Second
	for maxOpen, most := range map[int]int{1: 1, 4: 4, 10: 10, 0: 16} {
		t.Run(strconv.Itoa(maxOpen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, options{clusters: clusters, takes: 2 * time.Minute, slow: slow, maxOpen: maxOpen})
				defer f.portal.Close()
				f.run()
				var sent []time.Time
				for _, e := range f.requests("/kubernetes-clusters") {
					if e.Method == http.MethodPost {
						sent = append(sent, e.Time)
					}
				}
				open := 0 // maximum of open requests
				for i, at := range sent {
					now := 0
					for _, earlier := range sent[:i+1] {
						if at.Sub(earlier) < slow {
							now++
						}
					}
					open = max(open, now)
				}
				took := sent[len(sent)-1].Sub(sent[0])
				t.Logf("at most %d open, all sent within %v", open, took)
				least := time.Duration(clusters/most-1) * slow
				if open != most || took < least || took > least+least/5+10*time.Second {
					t.Errorf("at most %d were open, want %d; all were sent within %v, want at least %v", open, most, took, least)
				}
			})
		})
	}
}
