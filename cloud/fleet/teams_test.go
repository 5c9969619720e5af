// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestThreeTeams checks that teams take turns: three teams create 200 clusters at once, and the smallest team does not wait for the
// largest.
func TestThreeTeams(t *testing.T) {
	teams := []struct {
		name     string
		clusters int
		sent     time.Duration // maximum time until all its creations are accepted
	}{
		{"team-a", 150, 34 * time.Second},
		{"team-b", 40, 13 * time.Second},
		{"team-c", 10, time.Second},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, options{takes: 5 * time.Minute, spread: 0.2})
		defer f.portal.Close()
		of := map[string][]*object{}
		for _, team := range teams {
			for i := range team.clusters {
				o := f.creation(fmt.Sprintf("%s/cluster-%d", team.name, i))
				f.wakes[o.flow] = make(chan struct{}, 1)
				f.objects, of[team.name] = append(f.objects, o), append(of[team.name], o)
			}
		}
		f.run()
		for _, team := range teams {
			var sent, ready []time.Duration
			for _, o := range of[team.name] {
				sent, ready = append(sent, o.started.Sub(f.start)), append(ready, o.ready.Sub(f.start))
			}
			t.Logf("%s: all %d creations accepted after %v, all kubeconfigs after %v", team.name, team.clusters, quantile(sent, 1), quantile(ready, 1))
			if last := quantile(sent, 1); last > team.sent {
				t.Errorf("the creations of %s took %v, want at most %v", team.name, last, team.sent)
			}
		}
		r := f.result()
		t.Logf("bound %v, %d requests, %.1f looks for each job", r.allBound, r.requests, r.polls)
		if n := f.count(http.StatusTooManyRequests); n > 0 || r.all > r.allBound*21/20 {
			t.Errorf("%d × 429, and all were ready after %v, with a bound of %v", n, r.all, r.allBound)
		}
	})
}
