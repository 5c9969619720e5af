// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

func TestAgreed(t *testing.T) {
	small := infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	large := infrav1.WorkerParameters{ServiceOfferingID: "large", SSHKeyPair: "ops"}
	one, o := agreed(map[infrav1.WorkerParameters][]string{small: {"a", "b"}})
	if one != small || !o.IsDone() {
		t.Errorf("two templates that say the same: %+v, %+v", one, o)
	}
	var first outcome.Outcome
	for i := range 20 { // a map has no order, but a message must have one
		_, o = agreed(map[infrav1.WorkerParameters][]string{large: {"c"}, small: {"a", "b"}})
		if i == 0 {
			first = o
		}
		if o != first {
			t.Fatalf("the message flaps: %q, %q", first.Message, o.Message)
		}
	}
	if o.Kind != outcome.Stalled || o.Reason != infrav1.TemplateNotHonoredReason {
		t.Errorf("templates that differ: %+v", o)
	}
	for _, word := range []string{"a, b", "c", "small", "large"} {
		if !strings.Contains(o.Message, word) {
			t.Errorf("%q does not name %q", o.Message, word)
		}
	}
}

func TestCountDesired(t *testing.T) {
	at := func(minutes int) metav1.ObjectMeta {
		return metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(0, 0).Add(time.Duration(minutes) * time.Minute))}
	}
	leaving := at(9)
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0)))
	present := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: prod.Name, UID: "present"}}
	d := Desired{known: true}
	count := func(meta metav1.ObjectMeta, replicas *int32, template string) {
		d.add(member{ObjectMeta: meta, stale: ownerref.Stale(&meta, present), replicas: replicas, template: template})
	}
	count(at(2), ptr.To[int32](3), "b")
	count(at(1), ptr.To[int32](2), "a")
	count(at(0), ptr.To[int32](0), "b")
	count(leaving, ptr.To[int32](50), "of one that is being deleted")
	if !d.known || d.sum != 5 || strings.Join(d.Templates, ",") != "a,b" || !d.Youngest.Equal(time.Unix(120, 0)) {
		t.Errorf("%+v", d)
	}
	collected := leaving
	collected.Name, collected.OwnerReferences = "collected", owner("earlier")
	count(collected, ptr.To[int32](4), "c")
	leaving.OwnerReferences = owner("present")
	count(leaving, ptr.To[int32](50), "of one that a person deleted")
	if d.sum != 5 || !slices.Equal(d.collected, []string{"collected"}) {
		t.Errorf("the garbage collector's deletion changes the sum: %+v", d)
	}
	objects := d.objects
	d.protected = true
	count(leaving, ptr.To[int32](50), "of one that was deleted in a protected Cluster")
	if d.sum != 5 || d.objects != objects || d.going != 50 {
		t.Errorf("an object that is being deleted in a protected Cluster asks for workers, or does not keep those that exist: %+v", d)
	}
	d.protected, d.going = false, 0
	for size, want := range map[int]int{operation.SizeUnknown: 4, 3: 0, 9: 4, 12: 7} {
		if got := d.kept(size); got != want {
			t.Errorf("of %d workers, %d are kept beyond the sum, want %d", size, got, want)
		}
	}
	count(at(0), nil, "")
	if d.known {
		t.Error("replicas that nobody has set yet count as known")
	}
}

// owner returns a reference to Cluster prod with the UID.
func owner(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: prod.Name, UID: uid}}
}
