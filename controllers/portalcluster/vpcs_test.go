// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// TestOneLookupServesManyClusters checks that PortalClusters that are created together look their VPC up once.
func TestOneLookupServesManyClusters(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(3)
	for i := range 5 {
		other := b.get().DeepCopy()
		other.Name, other.UID, other.ResourceVersion, other.Status = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprint(i)), "", infrav1.PortalClusterStatus{}
		if err := b.store.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.store.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.Status.VPCID != b.get().Status.VPCID {
			t.Errorf("VPC %q, %v", other.Status.VPCID, err)
		}
	}
	if n := b.calls("GET", "/vpcs"); n != 1 {
		t.Errorf("6 PortalClusters look their VPC up %d times", n)
	}
}

// find looks for a VPC and expects a number of them.
func (b *bench) find(v *vpcs, portal *cloud.Client, name string, want int) {
	b.Helper()
	if found, err := v.find(b.Context(), portal, name); err != nil || len(found) != want {
		b.Errorf("%q: %v, %v", name, found, err)
	}
}

// TestFindVPC checks which answers count for others, and for how long.
func TestFindVPC(t *testing.T) {
	b, v := newBench(t, nil), &vpcs{}
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
		all.Go(func() { b.find(v, id.Portal, "default", 1) })
	}
	all.Wait()
	looks("20 at the same time", 1)
	b.find(v, id.Portal, "nowhere", 0)
	b.find(v, id.Portal, "nowhere", 0)
	looks("a VPC that does not exist", 3)
	b.find(v, id.Portal, "default", 1)
	looks("in the meantime", 3)
	v.known[vpcKey{id.Portal, "default"}].at = time.Now().Add(-vpcFresh - time.Second)
	b.find(v, id.Portal, "default", 1)
	looks("after vpcFresh", 4)
	other, err := cloud.New(cloud.Config{BaseURL: b.portal.URL(), CABundle: b.portal.CAPEM(), Email: "a@portal.example", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	b.find(v, other, "default", 1)
	looks("with other credentials", 5)
	b.portal.Close()
	if _, err := v.find(t.Context(), id.Portal, "elsewhere"); err == nil || len(v.known) != 2 {
		t.Errorf("%v: %d lookups are known", err, len(v.known))
	}
}
