// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// find looks for a VPC.
func (b *bench) find(portal *cloud.Client, name string, want bool) {
	b.Helper()
	if found, o := b.r.findVPC(b.Context(), portal, name); (found.id != "") != want || o.IsDone() != want {
		b.Errorf("%q: %+v, %+v", name, found, o)
	}
}

// TestFindVPC checks which answers count for others, and for how long.
func TestFindVPC(t *testing.T) {
	b, clock := newBench(t, nil), clocktesting.NewFakeClock(time.Now())
	b.r.Answers.Expiring = cache.NewExpiringWithClock(clock)
	id, o := b.r.Identities.Resolve(t.Context(), "default", b.get().Spec.IdentityRef)
	if !o.IsDone() {
		t.Fatalf("%+v", o)
	}
	looks := func(moment string, want int) {
		t.Helper()
		if n := b.calls("GET", "/vpcs"); n != want {
			t.Errorf("%s: %d requests, want %d", moment, n, want)
		}
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { b.find(id.Portal, "default", true) })
	}
	all.Wait()
	looks("20 at the same time", 1)
	b.find(id.Portal, "nowhere", false)
	b.find(id.Portal, "nowhere", false)
	looks("a VPC that does not exist", 3)
	b.find(id.Portal, "default", true)
	looks("in the meantime", 3)
	clock.Step(vpcFresh + time.Second)
	b.find(id.Portal, "default", true)
	looks("after vpcFresh", 4)
	other, err := cloud.New(cloud.Config{BaseURL: b.portal.URL(), CABundle: b.portal.CAPEM(), Email: "a@portal.example", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	b.find(other, "default", true)
	looks("with other credentials", 5)
	b.portal.Close()
	b.find(id.Portal, "elsewhere", false)
	if n := b.r.Answers.Len(); n != 2 {
		t.Errorf("%d lookups are known", n)
	}
}
