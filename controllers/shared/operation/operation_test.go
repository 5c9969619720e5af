// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestBlockMove: an object must not be moved while an answer of the portal may be on its way.
func TestBlockMove(t *testing.T) {
	tests := map[string]struct {
		op      *Operation
		blocked bool
	}{
		"intended": {&Operation{Type: Create}, true},
		"accepted": {&Operation{Type: Create, JobID: "job-1"}, false},
		"unknown":  {&Operation{Type: Create, Unknown: "cut off"}, false},
		"ended":    {&Operation{Type: Create, Result: Refused}, false},
		"none":     {nil, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{}
			putLast(obj, &Operation{Type: Create})
			if !blocksMove(obj) {
				t.Fatal("an intent does not block a move")
			}
			putLast(obj, test.op)
			if blocksMove(obj) != test.blocked {
				t.Errorf("blocks a move: %v", !test.blocked)
			}
		})
	}
}

// TestUnblockMove: a paused object may be moved, operation and all, and is written once for that.
func TestUnblockMove(t *testing.T) {
	op, obj := New(Create, "a"), &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	putLast(obj, op)
	writes := 0
	store := fake.NewClientBuilder().WithScheme(schemes.Of(t, infrav1.AddToScheme)).WithObjects(obj).Build()
	writer := persist.Writer{Client: interceptor.NewClient(store, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
	})}
	for range 2 {
		if err := store.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		if err := new(Calls).UnblockMove(t.Context(), writer, obj); err != nil {
			t.Fatal(err)
		}
		if got, err := lastOf(obj); err != nil || blocksMove(obj) || got.ID != op.ID || writes != 1 {
			t.Errorf("%v; %d writes; %v", obj.Annotations, writes, err)
		}
	}
}

func blocksMove(obj client.Object) bool {
	_, blocked := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]
	return blocked
}

// TestSpoiltAnnotations: an annotation that was edited never counts as "nothing is in flight".
func TestSpoiltAnnotations(t *testing.T) {
	for _, text := range []string{"", "{", `"create"`, `{"time":"yesterday"}`} {
		obj := &infrav1.PortalControlPlane{}
		for _, annotation := range []string{infrav1.OperationAnnotation, infrav1.RecordAnnotation} {
			if strings.Contains(text, "time") && annotation == infrav1.RecordAnnotation {
				continue // no member of a record
			}
			obj.Annotations = map[string]string{annotation: text}
			if state, err := Load(obj); err == nil || state.Last != nil {
				t.Errorf("%s %q: %+v, %v", annotation, text, state, err)
			} else if !strings.Contains(err.Error(), annotation) {
				t.Errorf("%q: the error does not name the annotation: %v", text, err)
			}
		}
	}
}

func TestRecord(t *testing.T) {
	obj := &infrav1.PortalControlPlane{}
	state, err := Load(obj)
	if err != nil || state.Record.Size != SizeUnknown {
		t.Fatalf("without a record the size is %d, %v", state.Record.Size, err)
	}
	if state.Put(obj); len(obj.Annotations) != 0 {
		t.Errorf("an object without a portal cluster has a record: %v", obj.Annotations)
	}
	state.Record = Record{
		UserID: "user-1", Size: 0, Version: "v1.36.3",
		Workers:   &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"},
		NetworkID: "net-1", VPCID: "vpc-1", AbandonedNames: []string{"a-1"},
	}
	state.Record.RemovalOrder.Order = removal.Oldest
	state.Put(obj)
	got, err := Load(obj)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state, got); diff != "" { // a size of 0 is not the same as no size
		t.Error(diff)
	}
}

// TestReplaceableBy checks that a creation is never sent again while it may have happened, and that only a deletion is sent while
// a job runs.
func TestReplaceableBy(t *testing.T) {
	running := func(t Type) *Operation { return &Operation{Type: t, JobID: "job-1"} }
	lost := func(t Type) *Operation { return &Operation{Type: t, Unknown: "cut off"} }
	tests := map[string]struct {
		op   *Operation
		next []Type
	}{
		"none":            {nil, []Type{Create, CreateNetwork, Scale, Upgrade, Delete}},
		"lost and ended":  {&Operation{Type: Create, Unknown: "cut off", Result: Abandoned}, []Type{Create, CreateNetwork, Scale, Upgrade, Delete}},
		"ended":           {&Operation{Type: Create, Result: Failed}, []Type{Create, CreateNetwork, Scale, Upgrade, Delete}},
		"running create":  {running(Create), nil},
		"running network": {running(CreateNetwork), nil},
		"running scale":   {running(Scale), []Type{Delete}},
		"running upgrade": {running(Upgrade), []Type{Delete}},
		"running delete":  {running(Delete), nil},
		"lost create":     {lost(Create), nil},
		"lost network":    {lost(CreateNetwork), nil},
		"lost scale":      {lost(Scale), []Type{Scale, Delete}},
		"lost upgrade":    {lost(Upgrade), []Type{Upgrade, Delete}},
		"lost delete":     {lost(Delete), []Type{Delete}},
	}
	for title, test := range tests {
		var got []Type
		for _, next := range []Type{Create, CreateNetwork, Scale, Upgrade, Delete} {
			if test.op.replaceableBy(next) {
				got = append(got, next)
			}
		}
		if diff := cmp.Diff(test.next, got); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}

// TestWords checks the words that conditions and events use for an operation.
func TestWords(t *testing.T) {
	tests := map[string]struct {
		op   Operation
		done string
	}{
		"scale from 3 to 5 workers": {Operation{Type: Scale, From: 3, Target: "5"}, "Scaled from 3 to 5 workers"},
		"scale from at most 6 to 6 workers": {Operation{Type: Scale, From: 6, FromAtMost: true, Target: "6"},
			"Scaled from at most 6 to 6 workers"},
		"upgrade to v1.37.0":              {Operation{Type: Upgrade, Target: "v1.37.0"}, "Upgraded to v1.37.0"},
		"deletion of cluster k8s-1":       {Operation{Type: Delete, Target: "k8s-1"}, "Deleted cluster k8s-1"},
		`creation of cluster "a-1"`:       {Operation{Type: Create, Target: "a-1"}, "Created cluster a-1 (id x-1)"},
		"creation of network 10.0.0.0/24": {Operation{Type: CreateNetwork, Target: "10.0.0.0/24"}, "Created network x-1 from 10.0.0.0/24"},
	}
	for want, test := range tests {
		if got := test.op.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if _, got := test.op.words("x-1"); got != test.done {
			t.Errorf("%q, want %q", got, test.done)
		}
	}
}
