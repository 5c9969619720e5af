// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestFindVPC checks that a VPC that was found counts for others for vpcFresh, and that one that was not is looked for again.
func TestFindVPC(t *testing.T) {
	b, clock := newBench(t, nil), clocktesting.NewFakeClock(time.Now())
	b.r.Answers.Expiring = cache.NewExpiringWithClock(clock)
	id, o := b.r.Identities.Resolve(t.Context(), "default", b.get().Spec.IdentityRef)
	if !o.IsDone() {
		t.Fatalf("%+v", o)
	}
	for i, look := range []struct {
		name     string
		after    time.Duration
		exists   bool
		requests int // so far
	}{
		{"default", 0, true, 1}, {"nowhere", 0, false, 2}, {"nowhere", 0, false, 3},
		{"default", vpcFresh - time.Second, true, 3}, {"default", time.Second, true, 4},
	} {
		clock.Step(look.after)
		found, o := b.r.findVPC(t.Context(), id.Portal, look.name)
		if n := b.calls("GET", "/vpcs"); n != look.requests || (found.id != "") != look.exists || o.IsDone() != look.exists {
			t.Errorf("look %d: %d requests, found %+v: %+v", i, n, found, o)
		}
	}
}
