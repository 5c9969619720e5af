// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestShares checks that managers which divide an account by AccountShare are together as fast as one manager with the whole account, and
// that the portal refuses none of their requests. The portal may name the limit in every answer or only in refusals.
func TestShares(t *testing.T) {
	for _, managers := range []int{2, 3} {
		for _, quiet := range []bool{false, true} {
			o := options{clusters: 300, takes: 2 * time.Minute, managers: managers, share: 1 / float64(managers), quiet: quiet}
			t.Run(o.String(), func(t *testing.T) { measure(t, o).judge(t, 1.05, 1.05) })
		}
	}
}

// TestWithoutShares checks the case without AccountShare. If the portal sends its headers only with refusals, as in the specification,
// managers without shares cause refusals until each has found its share.
func TestWithoutShares(t *testing.T) {
	r := measure(t, options{clusters: 300, takes: 2 * time.Minute, managers: 3, quiet: true})
	if r.limited*100 < r.requests {
		t.Errorf("%d × 429 of %d requests: without shares there must be refusals", r.limited, r.requests)
	}
}

// TestShareOfAnAbsentManager checks that a manager with a third of the account uses no more than its third while the other managers do not
// run.
func TestShareOfAnAbsentManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, options{clusters: 100, takes: 2 * time.Minute, share: 1.0 / 3, quiet: true})
		defer f.portal.Close()
		f.run()
		sent := f.requests("")
		for _, first := range sent {
			count := 0
			for _, e := range sent {
				if after := e.Time.Sub(first.Time); after >= 0 && after < time.Minute {
					count++
				}
			}
			if count > (300+burst)/3 {
				t.Fatalf("%d requests in a minute", count)
			}
		}
		if f.count(http.StatusTooManyRequests) > 0 {
			t.Error("requests were refused")
		}
	})
}
