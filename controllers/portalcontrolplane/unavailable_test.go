// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestScaleThatWasUnavailable: the portal answers a scale with a 503, and may have done it all the same. Until the workers have been
// counted, the portal is asked for the wanted number and for no other one.
func TestScaleThatWasUnavailable(t *testing.T) {
	tests := map[string]struct {
		done    bool
		to, now int32 // the replicas at the request, and a minute later
		want    string
	}{
		"down, done":             {true, 2, 2, `{"size":2}`},
		"down, not done":         {false, 2, 2, `{"size":2}`},
		"up, done":               {true, 8, 8, `{"size":8}`},
		"up, not done":           {false, 8, 8, `{"size":8}`},
		"up, done, not wanted":   {true, 8, 5, `{"size":8} {"size":5}`},
		"down, done, not wanted": {true, 2, 5, `{"size":2} {"size":5}`},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 5, emulator.Durations{Scale: 6 * time.Minute})
				f.nodes.apart = time.Minute
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
				portal := f.recordScales("")
				f.strike(emulator.Fault{Path: routeScale, Status: http.StatusServiceUnavailable, After: test.done, Count: 1})
				f.pass()
				f.scale(test.to)
				for start := time.Now(); time.Since(start) < 30*time.Minute; time.Sleep(9 * time.Second) {
					f.pass()
					if len(portal.asked) == 1 {
						f.scale(test.now)
					}
				}
				var asked []string
				for _, size := range portal.asked {
					if len(asked) == 0 || asked[len(asked)-1] != size {
						asked = append(asked, size)
					}
				}
				if got := strings.Join(asked, " "); got != test.want {
					t.Errorf("asked for %s, want %s", strings.Join(portal.asked, " "), test.want)
				}
				if s := f.pass(); s.Record.Size != int(test.now) || s.Record.SizeUncertain || len(s.nodes.Workers) != int(test.now) {
					t.Errorf("%d nodes, %+v", len(s.nodes.Workers), s.Record)
				}
			})
		})
	}
}
