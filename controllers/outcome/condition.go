// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Report makes the outcome of a step the condition that stands for it. A step that has nothing to tell now leaves its
// condition as it is, so that waiting for the account's rate limit never looks like a failure.
func Report(obj conditions.Setter, conditionType string, o Outcome) {
	switch o.Kind {
	case Done:
		Set(obj, conditionType, metav1.ConditionTrue, o)
	case Wait, Hold:
		Set(obj, conditionType, metav1.ConditionFalse, o)
	case Blocked:
		Set(obj, conditionType, metav1.ConditionUnknown, o)
	case Failed:
		Set(obj, conditionType, metav1.ConditionUnknown, Outcome{Reason: infrav1.InternalErrorReason, Message: "please check the manager's log"})
	case Later:
	}
}

// Set sets a condition; the time of its last transition is kept while its status is.
func Set(obj conditions.Setter, conditionType string, status metav1.ConditionStatus, o Outcome) {
	reason := o.Reason
	if reason == "" {
		reason = conditionType
	}
	conditions.Set(obj, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: o.Message})
}
