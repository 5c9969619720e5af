// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestOperationSurvives: what was put is loaded again, on an object that had no annotations before.
func TestOperationSurvives(t *testing.T) {
	obj := &infrav1.PortalControlPlane{}
	if op, err := Load(obj); op != nil || err != nil {
		t.Fatalf("a new object has operation %+v, %v", op, err)
	}
	op := New(Scale, "5")
	op.From, op.JobID, op.Attempt, op.Unknown, op.Searched = 3, "job-1", "x", "cut off", true
	Put(obj, op)
	got, err := Load(obj)
	if err != nil {
		t.Fatal(err)
	}
	op.Time = metav1.NewTime(op.Time.Local().Truncate(1e9)) // as Kubernetes writes times
	got.Time = metav1.NewTime(got.Time.Local())
	if diff := cmp.Diff(op, got); diff != "" {
		t.Error(diff)
	}
	obj.Annotations["other"] = "stays"
	Put(obj, nil)
	if diff := cmp.Diff(map[string]string{"other": "stays"}, obj.Annotations); diff != "" {
		t.Error(diff)
	}
}

func TestOperationsHaveIDsOfTheirOwn(t *testing.T) {
	if a, b := New(Create, "a"), New(Create, "a"); a.ID == "" || a.ID == b.ID {
		t.Errorf("ids %q and %q", a.ID, b.ID)
	}
}

// TestBlockMove: an object must not be moved while an answer of the portal may be on its way.
func TestBlockMove(t *testing.T) {
	tests := map[string]struct {
		op      *Operation
		blocked bool
	}{
		"intended": {&Operation{Type: Create}, true},
		"accepted": {&Operation{Type: Create, JobID: "job-1"}, false},
		"unknown":  {&Operation{Type: Create, Unknown: "cut off"}, false},
		"ended":    {nil, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{}
			Put(obj, &Operation{Type: Create})
			if !blocksMove(obj) {
				t.Fatal("an intent does not block a move")
			}
			Put(obj, test.op)
			if blocksMove(obj) != test.blocked {
				t.Errorf("blocks a move: %v", !test.blocked)
			}
		})
	}
}

func blocksMove(obj client.Object) bool {
	_, blocked := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]
	return blocked
}

func TestRetryAllowed(t *testing.T) {
	op := New(Create, "a")
	for value, allowed := range map[string]bool{"": false, "true": false, op.ID + "x": false, op.ID: true} {
		obj := &infrav1.PortalControlPlane{}
		obj.Annotations = map[string]string{infrav1.RetryOperationAnnotation: value}
		if RetryAllowed(obj, op) != allowed {
			t.Errorf("annotation %q: allowed %v", value, !allowed)
		}
	}
	if RetryAllowed(&infrav1.PortalControlPlane{}, op) {
		t.Error("allowed without an annotation")
	}
}

// TestSpoiltAnnotations: what somebody has edited is never taken for "nothing is in flight".
func TestSpoiltAnnotations(t *testing.T) {
	for _, text := range []string{"", "{", `"create"`, `{"time":"yesterday"}`} {
		obj := &infrav1.PortalControlPlane{}
		obj.Annotations = map[string]string{infrav1.OperationAnnotation: text, infrav1.RecordAnnotation: text}
		if op, err := Load(obj); err == nil || op != nil {
			t.Errorf("%q: operation %+v, %v", text, op, err)
		} else if !strings.Contains(err.Error(), infrav1.OperationAnnotation) {
			t.Errorf("%q: the error does not name the annotation: %v", text, err)
		}
		if strings.Contains(text, "time") {
			continue // no member of a record
		}
		if _, err := LoadRecord(obj); err == nil {
			t.Errorf("%q: a record", text)
		}
	}
}

func TestRecord(t *testing.T) {
	obj := &infrav1.PortalControlPlane{}
	record, err := LoadRecord(obj)
	if err != nil || record.Size != SizeUnknown {
		t.Fatalf("without a record the size is %d, %v", record.Size, err)
	}
	record = &Record{
		UserID: "user-1", Size: 0, Version: "v1.36.3", FailedUpgrade: "v1.37.0",
		Workers:   &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"},
		NetworkID: "net-1", VPCID: "vpc-1", AbandonedNames: []string{"a-1"},
	}
	PutRecord(obj, record)
	got, err := LoadRecord(obj)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, got); diff != "" { // a size of 0 is not the same as no size
		t.Error(diff)
	}
}
