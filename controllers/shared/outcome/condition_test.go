// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

func TestReport(t *testing.T) {
	before := metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Fine", Message: "as ever"}
	type row struct {
		outcome Outcome
		want    metav1.Condition
	}
	tests := map[string]row{
		"done":                    {Outcome{}, metav1.Condition{Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason}},
		"done with a message":     {DoneWith("%d of %d", 3, 3), metav1.Condition{Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason, Message: "3 of 3"}},
		"wait":                    {WaitFor(time.Second, "Slow", "soon"), metav1.Condition{Status: metav1.ConditionFalse, Reason: "Slow", Message: "Soon"}},
		"hold":                    {StallFor(0, "Wrong", "correct it"), metav1.Condition{Status: metav1.ConditionFalse, Reason: "Wrong", Message: "Correct it"}},
		"blocked":                 {BlockedBy("First", "see the other"), metav1.Condition{Status: metav1.ConditionUnknown, Reason: "First", Message: "See the other"}},
		"a retry changes nothing": {RetryAfter(time.Minute), before},
		"an error, which may hold secrets": {Fail(errors.New("token abc")), metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: infrav1.InternalErrorReason, Message: "An unexpected error occurred. Look at the manager's log",
		}},
	}
	for title, err := range map[string]error{ // which say nothing about the object
		"the manager ends":                              fmt.Errorf("read Secret: %w", context.Canceled),
		"no answer in time":                             context.DeadlineExceeded,
		"the management API server times out":           apierrors.NewTimeoutError("etcd", 1),
		"the management API server is overloaded":       apierrors.NewServerTimeout(schema.GroupResource{Resource: "secrets"}, "get", 1),
		"the management API server refuses for a while": apierrors.NewTooManyRequests("later", 1),
		"the management API server is away":             &url.Error{Op: "Get", URL: "https://a", Err: syscall.ECONNREFUSED},
	} {
		tests[title] = row{Fail(err), before}
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{}
			conditions.Set(obj, before)
			Report(obj, "Healthy", test.outcome)
			got := conditions.Get(obj, "Healthy")
			if got == nil || got.Status != test.want.Status || got.Reason != test.want.Reason || got.Message != test.want.Message {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSummarize: a user looks at the first condition that is not True.
func TestSummarize(t *testing.T) {
	condition := func(t string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: t, Status: status, Reason: t + "Reason", Message: "see " + t}
	}
	tests := map[string]struct {
		have    []metav1.Condition
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"all are True":      {[]metav1.Condition{condition("A", "True"), condition("B", "True")}, metav1.ConditionTrue, infrav1.ReadyReason, ""},
		"one is False":      {[]metav1.Condition{condition("A", "True"), condition("B", "False")}, metav1.ConditionFalse, "BReason", "see B"},
		"the first counts":  {[]metav1.Condition{condition("B", "False"), condition("A", "Unknown")}, metav1.ConditionFalse, "AReason", "see A"},
		"one is not there":  {[]metav1.Condition{condition("A", "True")}, metav1.ConditionFalse, "NotYetReported", "Condition not yet reported"},
		"the target itself": {[]metav1.Condition{condition("Sum", "False"), condition("A", "True"), condition("B", "True")}, metav1.ConditionTrue, infrav1.ReadyReason, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{}
			obj.SetConditions(test.have)
			Summarize(obj, "Sum", "A", "B")
			got := conditions.Get(obj, "Sum")
			if got.Status != test.status || got.Reason != test.reason || got.Message != test.message {
				t.Errorf("%+v", got)
			}
		})
	}
}

// stored returns a store with the object, as it is stored, and the number of times that a status is written.
func stored(t *testing.T, obj *infrav1.PortalCluster) (store client.Client, writes *int) {
	t.Helper()
	writes = new(int)
	store = fake.NewClientBuilder().WithScheme(schemes.Of(t, infrav1.AddToScheme)).WithObjects(obj).WithStatusSubresource(obj).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				*writes++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	return store, writes
}

// TestPatchStatus: only status is written, only if it differs, and what others wrote stays.
func TestPatchStatus(t *testing.T) {
	mine := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	store, writes := stored(t, mine)
	before := mine.Status
	patch := func(networkID string, want int) {
		t.Helper()
		mine.Status.NetworkID = networkID
		if err := PatchStatus(t.Context(), store, mine, &mine.Status, before); err != nil || *writes != want {
			t.Errorf("network %q: %v, %d writes, want %d", networkID, err, *writes, want)
		}
	}
	theirs := mine.DeepCopy()
	theirs.Status.VPCID = "vpc-1"
	if err := store.Status().Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	patch("", 0)
	patch("net-1", 1)
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(mine), theirs); err != nil || theirs.Status.NetworkID != "net-1" || theirs.Status.VPCID != "vpc-1" {
		t.Errorf("stored %+v: %v", theirs.Status, err)
	}
	if mine.Status.NetworkID != "net-1" {
		t.Errorf("in memory %+v", mine.Status)
	}
	if err := store.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	patch("net-2", 2) // an object that is gone needs no status
}

// TestSummaryIsAboutTheOldestSpec: a summary is about the new generation when all of its parts are.
func TestSummaryIsAboutTheOldestSpec(t *testing.T) {
	obj := &infrav1.PortalCluster{}
	pass := func(generation int64, types ...string) int64 {
		obj.Generation = generation
		for _, condition := range types {
			Report(obj, condition, Outcome{})
		}
		Summarize(obj, "Healthy", "A", "B")
		return ObservedGeneration(obj, "Healthy")
	}
	for i, got := range []int64{pass(1, "A"), pass(1, "A", "B"), pass(2, "A"), pass(3, "B"), pass(3, "A", "B")} {
		if want := []int64{0, 1, 1, 2, 3}[i]; got != want {
			t.Errorf("pass %d: generation %d, want %d", i+1, got, want)
		}
	}
	if got := ObservedGeneration(obj, "Other"); got != 0 {
		t.Errorf("of no condition: %d", got)
	}
}

// TestSentence checks that conditions begin with a capital letter, but that no name is changed.
func TestSentence(t *testing.T) {
	for message, want := range map[string]string{
		"":                              "",
		"waiting for a node":            "Waiting for a node",
		"the portal's answer":           "The portal's answer",
		"spec.version is not offered":   "spec.version is not offered",
		"k8s-1 is gone":                 "k8s-1 is gone",
		"baseURL leads to another host": "baseURL leads to another host",
	} {
		c := &infrav1.PortalCluster{}
		Set(c, infrav1.ReadyCondition, metav1.ConditionFalse, Outcome{Reason: "R", Message: message})
		if got := conditions.GetMessage(c, infrav1.ReadyCondition); got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}
