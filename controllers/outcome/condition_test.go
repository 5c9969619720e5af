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
	tests := map[string]struct {
		outcome Outcome
		want    metav1.Condition
	}{
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

// TestReportOfTheManagementCluster checks that an error of the management API server, or the end of the manager, changes no condition.
func TestReportOfTheManagementCluster(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for title, err := range map[string]error{
		"the manager ends":       fmt.Errorf("read Secret: %w", context.Canceled),
		"no answer in time":      context.DeadlineExceeded,
		"it times out":           apierrors.NewTimeoutError("etcd", 1),
		"it is overloaded":       apierrors.NewServerTimeout(resource, "get", 1),
		"it refuses for a while": apierrors.NewTooManyRequests("later", 1),
		"it is away":             &url.Error{Op: "Get", URL: "https://a", Err: syscall.ECONNREFUSED},
	} {
		obj := &infrav1.PortalCluster{}
		conditions.Set(obj, metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Fine"})
		if Report(obj, "Healthy", Fail(err)); !conditions.IsTrue(obj, "Healthy") {
			t.Errorf("%s: %+v", title, conditions.Get(obj, "Healthy"))
		}
	}
	obj := &infrav1.PortalCluster{}
	conditions.Set(obj, metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Fine"})
	if Report(obj, "Healthy", Fail(apierrors.NewForbidden(resource, "a", nil))); conditions.IsTrue(obj, "Healthy") {
		t.Error("a missing right is not reported")
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
		"others do not":     {[]metav1.Condition{condition("A", "True"), condition("B", "True"), condition("C", "False")}, metav1.ConditionTrue, infrav1.ReadyReason, ""},
		"one is not there":  {[]metav1.Condition{condition("A", "True")}, metav1.ConditionFalse, "NotYetReported", "Condition not yet reported"},
		"none is there":     {nil, metav1.ConditionFalse, "NotYetReported", "Condition not yet reported"},
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

// TestPatchStatus: only status is written, only if it differs, and what others wrote stays.
func TestPatchStatus(t *testing.T) {
	scheme := schemes.Of(t, infrav1.AddToScheme)
	obj := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	writes := 0
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).WithStatusSubresource(obj).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	get := func() *infrav1.PortalCluster {
		t.Helper()
		got := &infrav1.PortalCluster{}
		if err := store.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	mine := get()
	theirs := get()
	theirs.Status.VPCID = "vpc-1"
	if err := store.Status().Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	before := mine.Status.DeepCopy()
	if err := PatchStatus(t.Context(), store, mine, &mine.Status, *before); err != nil || writes != 0 {
		t.Errorf("%v, %d writes of what did not change", err, writes)
	}
	mine.Status.NetworkID = "net-1"
	if err := PatchStatus(t.Context(), store, mine, &mine.Status, *before); err != nil || writes != 1 {
		t.Errorf("%v, %d writes", err, writes)
	}
	if got := get().Status; got.NetworkID != "net-1" || got.VPCID != "vpc-1" || mine.Status.NetworkID != "net-1" {
		t.Errorf("stored %+v, in memory %+v", got, mine.Status)
	}
	if err := store.Delete(t.Context(), get()); err != nil {
		t.Fatal(err)
	}
	mine.Status.NetworkID = "net-2"
	if err := PatchStatus(t.Context(), store, mine, &mine.Status, *before); err != nil {
		t.Errorf("an object that is gone needs no status: %v", err)
	}
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
		"":                               "",
		"waiting for a node":             "Waiting for a node",
		"scale: lost":                    "Scale: lost",
		"3 nodes exist":                  "3 nodes exist",
		"the portal's answer":            "The portal's answer",
		"spec.version is not offered":    "spec.version is not offered",
		"k8s-1 is gone":                  "k8s-1 is gone",
		"baseURL leads to another host":  "baseURL leads to another host",
		"Node n1 has another providerID": "Node n1 has another providerID",
	} {
		c := &infrav1.PortalCluster{}
		Set(c, infrav1.ReadyCondition, metav1.ConditionFalse, Outcome{Reason: "R", Message: message})
		if got := conditions.GetMessage(c, infrav1.ReadyCondition); got != want {
			t.Errorf("%q: %q", message, got)
		}
	}
}
