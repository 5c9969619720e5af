// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// portalCluster is a control plane that has a portal cluster of so many workers, or none if there are fewer than 0.
func portalCluster(namespace, name string, workers int, change func(*infrav1.PortalControlPlane)) *infrav1.PortalControlPlane {
	cp := controlPlane(name)
	cp.Namespace, cp.UID = namespace, types.UID("cp-"+namespace+"-"+name)
	if workers >= 0 {
		cp.Spec.ClusterID = "id-" + namespace + "-" + name
		operation.PutRecord(cp, &operation.Record{UID: cp.UID, ClusterID: cp.Spec.ClusterID, Size: workers})
	}
	if change != nil {
		change(cp)
	}
	return cp
}

func limited(clusters, workers *int32) Identity {
	return Identity{Shared: "team", Limits: &infrav1.PortalIdentityLimits{Clusters: clusters, Workers: workers}}
}

// under returns an operation in flight.
func under(t operation.Type, target string, nodes int) func(*infrav1.PortalControlPlane) {
	return func(cp *infrav1.PortalControlPlane) {
		op := operation.New(t, target)
		op.Nodes = nodes
		operation.Put(cp, op)
	}
}

// TestGrant counts the portal clusters of an identity in all namespaces.
func TestGrant(t *testing.T) {
	running := portalCluster("default", "a", 3, nil)
	tests := map[string]struct {
		others  []client.Object // beside the PortalClusters a, b (default) and c (elsewhere) of the identity, and d of another one
		id      Identity
		of      *infrav1.PortalControlPlane
		workers int
		says    string // empty: granted
	}{
		"the first":               {nil, limited(ptr.To[int32](1), nil), portalCluster("default", "a", -1, nil), 3, ""},
		"none is allowed":         {nil, limited(ptr.To[int32](0), nil), portalCluster("default", "a", -1, nil), 3, `PortalClusterIdentity "team" allows 0 clusters, and 0 exist`},
		"the last place":          {[]client.Object{running}, limited(ptr.To[int32](2), nil), portalCluster("default", "b", -1, nil), 3, ""},
		"one too many":            {[]client.Object{running}, limited(ptr.To[int32](1), nil), portalCluster("default", "b", -1, nil), 3, `allows 1 clusters, and 1 exist`},
		"one too many, elsewhere": {[]client.Object{running}, limited(ptr.To[int32](1), nil), portalCluster("elsewhere", "c", -1, nil), 3, `allows 1 clusters, and 1 exist`},
		"another identity's":      {[]client.Object{portalCluster("default", "d", 9, nil)}, limited(ptr.To[int32](1), ptr.To[int32](3)), portalCluster("default", "a", -1, nil), 3, ""},
		"not yet asked for":       {[]client.Object{portalCluster("default", "a", -1, nil)}, limited(ptr.To[int32](1), nil), portalCluster("default", "b", -1, nil), 3, ""},
		"an intent":               {[]client.Object{portalCluster("default", "a", -1, under(operation.Create, "x", 3))}, limited(ptr.To[int32](1), nil), portalCluster("default", "b", -1, nil), 3, `allows 1 clusters, and 1 exist`},
		"a copy of one":           {[]client.Object{running, portalCluster("elsewhere", "c", 3, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = running.Spec.ClusterID })}, limited(ptr.To[int32](2), nil), portalCluster("default", "b", -1, nil), 3, ""},
		"spoilt annotations": {[]client.Object{portalCluster("default", "a", -1, func(cp *infrav1.PortalControlPlane) {
			cp.Annotations = map[string]string{infrav1.RecordAnnotation: "x"}
		})}, limited(ptr.To[int32](1), nil), portalCluster("default", "b", -1, nil), 3, `allows 1 clusters`},
		"workers to create":       {[]client.Object{running}, limited(nil, ptr.To[int32](5)), portalCluster("default", "b", -1, nil), 3, `allows 5 workers. Other clusters have 3 of them, and this one wants 3`},
		"workers that fit":        {[]client.Object{running}, limited(nil, ptr.To[int32](6)), portalCluster("default", "b", -1, nil), 3, ""},
		"workers of an intent":    {[]client.Object{portalCluster("default", "a", -1, under(operation.Create, "x", 4))}, limited(nil, ptr.To[int32](6)), portalCluster("default", "b", -1, nil), 3, "Other clusters have 4"},
		"workers of a scale":      {[]client.Object{portalCluster("default", "a", 3, under(operation.Scale, "5", 2))}, limited(nil, ptr.To[int32](6)), portalCluster("default", "b", -1, nil), 3, "Other clusters have 5"},
		"workers of a scale down": {[]client.Object{portalCluster("default", "a", 5, under(operation.Scale, "1", 4))}, limited(nil, ptr.To[int32](6)), portalCluster("default", "b", -1, nil), 3, "Other clusters have 5"},
		"workers of an adopted one": {[]client.Object{portalCluster("default", "a", -1, func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID, cp.Status.Workers = "x", &infrav1.WorkerCounts{Nodes: 4}
		})}, limited(nil, ptr.To[int32](6)), portalCluster("default", "b", -1, nil), 3, "Other clusters have 4"},
		"more workers than allowed":   {[]client.Object{running}, limited(nil, ptr.To[int32](4)), portalCluster("elsewhere", "c", 1, nil), 2, "this one wants 2"},
		"fewer under a lowered limit": {[]client.Object{running}, limited(ptr.To[int32](1), ptr.To[int32](1)), portalCluster("elsewhere", "c", 5, nil), 4, ""},
		"as many as there were":       {[]client.Object{running}, limited(ptr.To[int32](1), ptr.To[int32](1)), portalCluster("elsewhere", "c", 5, nil), 5, ""},
		"no limits":                   {[]client.Object{running}, Identity{Shared: "team"}, portalCluster("default", "b", -1, nil), 99, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, append(test.others, sharing("default", "a", "team"), sharing("default", "b", "team"), sharing("elsewhere", "c", "team"),
				sharing("default", "d", "another"))...)
			o := b.resolver.Grant(t.Context(), test.id, test.of, test.workers)
			if test.says == "" && !o.IsDone() {
				t.Errorf("refused: %+v", o)
			}
			if test.says != "" && (o.Kind != outcome.Stalled || o.Reason != infrav1.IdentityLimitReachedReason || o.RequeueAfter == 0 || !strings.Contains(o.Message, test.says)) {
				t.Errorf("%+v, want … %s …", o, test.says)
			}
		})
	}
}

// TestLastPlace has many ask for two places at once: two get them, though no intent is stored yet.
func TestLastPlace(t *testing.T) {
	const asking = 16
	var objects []client.Object
	for i := range asking {
		name := fmt.Sprintf("c%d", i)
		objects = append(objects, sharing("default", name, "team"), portalCluster("default", name, -1, nil))
	}
	b := newBench(t, objects...)
	var granted atomic.Int32
	var all sync.WaitGroup
	for i := range asking {
		all.Go(func() {
			if b.resolver.Grant(t.Context(), limited(ptr.To[int32](2), nil), portalCluster("default", fmt.Sprintf("c%d", i), -1, nil), 1).IsDone() {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if granted.Load() != 2 {
		t.Errorf("%d of 2 places were given away", granted.Load())
	}
}

// TestReturn: a place that was not used is free at once, and a grant without a visible cluster is free after a while.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := portalCluster("default", "a", -1, nil), portalCluster("default", "c", -1, nil)
		b := newBench(t, sharing("default", "a", "team"), sharing("default", "c", "team"), a, c)
		grant := func(cp *infrav1.PortalControlPlane) bool {
			return b.resolver.Grant(t.Context(), limited(ptr.To[int32](1), nil), cp, 1).IsDone()
		}
		if !grant(a) || grant(c) {
			t.Fatal("one place, and not the first has it")
		}
		b.resolver.ReturnGrant(a)
		if !grant(c) || grant(a) {
			t.Error("a place that was given back is not free")
		}
		time.Sleep(grantTime + time.Second)
		if !grant(a) {
			t.Error("a place of which nothing is seen stays taken")
		}
	})
}

func TestPlace(t *testing.T) {
	limits := &infrav1.PortalIdentityLimits{Zones: []string{"z2", "z1"}, VPCs: []string{"v1"}}
	tests := map[string]struct {
		limits    *infrav1.PortalIdentityLimits
		zone, vpc string
		says      string
	}{
		"allowed":      {limits, "z1", "v1", ""},
		"no limits":    {nil, "z9", "v9", ""},
		"all allowed":  {&infrav1.PortalIdentityLimits{}, "z9", "v9", ""},
		"another zone": {limits, "z3", "v1", `PortalClusterIdentity "team" allows the zones z1, z2, but not "z3"`},
		"another VPC":  {limits, "z1", "v2", `allows the VPCs v1, but not "v2"`},
		"no VPC":       {limits, "z1", "", `allows the VPCs v1, but not ""`},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			o := Identity{Shared: "team", Limits: test.limits}.CheckPlacement(test.zone, test.vpc)
			if o.IsDone() != (test.says == "") || !strings.Contains(o.Message, test.says) {
				t.Errorf("%+v, want … %s …", o, test.says)
			}
		})
	}
}
