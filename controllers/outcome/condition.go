// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Report makes the outcome of a step the condition that stands for it. A step that has nothing to tell now leaves its
// condition as it is, so that waiting for the account's rate limit never looks like a failure.
func Report(obj conditions.Setter, conditionType string, o Outcome) {
	switch o.Kind {
	case Done:
		Set(obj, conditionType, metav1.ConditionTrue, o)
	case Wait, Stalled:
		Set(obj, conditionType, metav1.ConditionFalse, o)
	case Blocked:
		Set(obj, conditionType, metav1.ConditionUnknown, o)
	case Failed:
		if passes(o.Err) {
			return // it says nothing about the object
		}
		Set(obj, conditionType, metav1.ConditionUnknown, Outcome{Reason: infrav1.InternalErrorReason, Message: "please check the manager's log"})
	case Retry:
	}
}

// passes reports whether the error is one of a management API server that is busy or away for a moment, or of a manager that ends.
func passes(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// Set sets a condition; the time of its last transition is kept while its status is.
func Set(obj conditions.Setter, conditionType string, status metav1.ConditionStatus, o Outcome) {
	reason := o.Reason
	if reason == "" {
		reason = conditionType
	}
	conditions.Set(obj, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: o.Message})
}

// ReportDeleting sets the condition Deleting by the deletion timestamp of the object. The message is that of an object that is being deleted.
func ReportDeleting(obj interface {
	conditions.Setter
	metav1.Object
}, message string) {
	if obj.GetDeletionTimestamp().IsZero() {
		Set(obj, clusterv1.DeletingCondition, metav1.ConditionFalse, Outcome{Reason: infrav1.NotDeletingReason})
		return
	}
	Set(obj, clusterv1.DeletingCondition, metav1.ConditionTrue, Outcome{Reason: infrav1.DeletingReason, Message: message})
}

// Summarize makes the condition of the first of the others that is not True: its reason and message say what a user has to look at. The
// default strategy of SetSummaryCondition joins all messages and has a reason of its own, which says less. Its observedGeneration is the
// lowest of theirs: a condition that a pass had nothing to say about is still about an earlier spec.
func Summarize(obj conditions.Setter, conditionType, reason string, others ...string) {
	err := conditions.SetSummaryCondition(obj, obj, conditionType, conditions.ForConditionTypes(others),
		conditions.CustomMergeStrategy{MergeStrategy: firstNotTrue(reason)})
	if err != nil {
		panic(err) // no types, or one of them is conditionType
	}
	all := obj.GetConditions()
	summary := meta.FindStatusCondition(all, conditionType)
	for _, other := range others {
		if c := meta.FindStatusCondition(all, other); c != nil {
			summary.ObservedGeneration = min(summary.ObservedGeneration, c.ObservedGeneration)
		} else {
			summary.ObservedGeneration = 0
		}
	}
	obj.SetConditions(all)
}

// Remark gives a condition a message, and changes nothing else of it.
func Remark(obj conditions.Setter, conditionType, message string) {
	all := obj.GetConditions()
	if c := meta.FindStatusCondition(all, conditionType); c != nil {
		c.Message = message
		obj.SetConditions(all)
	}
}

// Observed returns the generation of the object that a condition is about; 0 if there is no such condition.
func Observed(obj conditions.Getter, conditionType string) int64 {
	if c := conditions.Get(obj, conditionType); c != nil {
		return c.ObservedGeneration
	}
	return 0
}

// firstNotTrue is the merge strategy of Summarize; its value is the reason if all conditions are True.
type firstNotTrue string

// Merge implements conditions.MergeStrategy.
func (reason firstNotTrue) Merge(_ conditions.MergeOperation, have []conditions.ConditionWithOwnerInfo, types []string) (metav1.ConditionStatus, string, string, error) {
	for _, t := range types {
		for _, c := range have {
			if c.Type == t && c.Status != metav1.ConditionTrue {
				return metav1.ConditionFalse, c.Reason, c.Message, nil
			}
		}
	}
	return metav1.ConditionTrue, string(reason), "", nil
}

// statusTimeout bounds the writing of a status.
const statusTimeout = 10 * time.Second

// PatchStatus writes the status of the object, to which status points, if it differs from before. Only status: metadata and spec are
// written, with an optimistic lock, when they are decided. A pass whose time is up still writes its status, which says what it waited for.
func PatchStatus[S any](ctx context.Context, c client.Client, obj client.Object, status *S, before S) error {
	after := *status
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	*status = before
	base, ok := obj.DeepCopyObject().(client.Object)
	*status = after
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
	defer cancel()
	if err := c.Status().Patch(ctx, obj, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
