// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Report sets the condition of a step to its outcome. A Retry leaves the condition as it is, so waiting for the account's rate
// limit never looks like a failure.
func Report(obj conditions.Setter, conditionType string, o Outcome) {
	switch o.Kind {
	case Done:
		o.Reason = cmp.Or(o.Reason, infrav1.ReadyReason)
		Set(obj, conditionType, metav1.ConditionTrue, o)
	case Wait, Stalled:
		Set(obj, conditionType, metav1.ConditionFalse, o)
	case Blocked:
		Set(obj, conditionType, metav1.ConditionUnknown, o)
	case Failed:
		if IsTransient(o.Err) {
			return // it says nothing about the object
		}
		Set(obj, conditionType, metav1.ConditionUnknown, Outcome{Reason: infrav1.InternalErrorReason, Message: "an unexpected error occurred. Look at the manager's log"})
	case Retry:
	}
}

// IsTransient reports whether the error is expected to pass: the management API server is busy or away for a moment, or the
// manager stops.
func IsTransient(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// Set sets a condition. Its last transition time changes only with its status.
func Set(obj conditions.Setter, conditionType string, status metav1.ConditionStatus, o Outcome) {
	conditions.Set(obj, metav1.Condition{Type: conditionType, Status: status, Reason: o.Reason, Message: sentence(o.Message)})
}

// ReportDeleting sets the condition Deleting from the deletion timestamp of the object. An object that is being deleted gets the
// message.
func ReportDeleting(obj interface {
	conditions.Setter
	metav1.Object
}, message string) {
	if obj.GetDeletionTimestamp().IsZero() {
		Set(obj, clusterv1.DeletingCondition, metav1.ConditionFalse, Outcome{Reason: clusterv1.NotDeletingReason})
		return
	}
	Set(obj, clusterv1.DeletingCondition, metav1.ConditionTrue, Outcome{Reason: infrav1.DeletingReason, Message: message})
}

// Summarize sets a condition from the first of the others that is not True, with its reason and message. The default strategy of
// SetSummaryCondition joins all messages under a reason of its own, which is harder to read. observedGeneration is the lowest one
// of the others: a condition that a pass left alone is still about an earlier spec.
func Summarize(obj conditions.Setter, conditionType string, others ...string) {
	err := conditions.SetSummaryCondition(obj, obj, conditionType, conditions.ForConditionTypes(others),
		conditions.CustomMergeStrategy{MergeStrategy: firstNotTrue{}})
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

// SetMessage changes the message of a condition, and nothing else.
func SetMessage(obj conditions.Setter, conditionType, message string) {
	all := obj.GetConditions()
	if c := meta.FindStatusCondition(all, conditionType); c != nil {
		c.Message = sentence(message)
		obj.SetConditions(all)
	}
}

// ObservedGeneration returns the generation of the object that a condition is about, or 0 if the condition does not exist.
func ObservedGeneration(obj conditions.Getter, conditionType string) int64 {
	if c := conditions.Get(obj, conditionType); c != nil {
		return c.ObservedGeneration
	}
	return 0
}

// firstNotTrue is the merge strategy of Summarize.
type firstNotTrue struct{}

// Merge implements conditions.MergeStrategy.
func (firstNotTrue) Merge(_ conditions.MergeOperation, have []conditions.ConditionWithOwnerInfo, types []string) (metav1.ConditionStatus, string, string, error) {
	for _, t := range types {
		for _, c := range have {
			if c.Type == t && c.Status != metav1.ConditionTrue {
				return metav1.ConditionFalse, c.Reason, c.Message, nil
			}
		}
	}
	return metav1.ConditionTrue, infrav1.ReadyReason, "", nil
}

// statusTimeout bounds the writing of a status.
const statusTimeout = 10 * time.Second

// PatchStatus writes the status of the object, to which status points, if it differs from before. Metadata and spec are written
// elsewhere, with an optimistic lock, when they are decided. A pass that has timed out still writes its status, which reports
// what it waited for.
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

// sentence returns the message with its first letter in upper case, unless its first word is a name such as spec.version.
func sentence(message string) string {
	first, _, _ := strings.Cut(message, " ")
	if word := strings.TrimRight(first, ",:"); word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz'") != "" {
		return message
	}
	return strings.ToUpper(message[:1]) + message[1:]
}

// EnsurePaused sets the condition Paused and reports whether the object is paused, like paused.EnsurePausedCondition. For a new
// object that is not paused, ReportNotPaused sets the condition together with the other ones, which saves one request for each
// object.
func EnsurePaused(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, obj paused.ConditionSetter) (isPaused, requeue bool, err error) {
	isNew := !conditions.Has(obj, clusterv1.PausedCondition)
	if cluster == nil {
		cluster = &clusterv1.Cluster{}
	}
	if isNew && !annotations.IsPaused(cluster, obj) {
		return false, false, nil
	}
	return paused.EnsurePausedCondition(ctx, c, cluster, obj)
}

// ReportNotPaused sets the condition Paused of a new object that is not paused, before the pass writes its status.
func ReportNotPaused(obj conditions.Setter) {
	if !conditions.Has(obj, clusterv1.PausedCondition) {
		Set(obj, clusterv1.PausedCondition, metav1.ConditionFalse, Outcome{Reason: clusterv1.NotPausedReason})
	}
}
