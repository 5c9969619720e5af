// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// eventTextLimit is the longest text of an event that the API server accepts.
const eventTextLimit = 1024

// WarnStalled emits a Warning for each condition that started to wait for a person in this pass, or that now waits for another
// reason. Several conditions with the same reason make one event. The conditions before the pass are the memory, so a restart of
// the manager repeats nothing.
func WarnStalled(recorder events.EventRecorder, obj Object, before []metav1.Condition, outcomes map[string]Outcome) {
	reported := map[string]bool{}
	for _, c := range before {
		reported[eventReason(c.Type)+c.Reason] = true
	}
	for _, condition := range slices.Sorted(maps.Keys(outcomes)) {
		o := outcomes[condition]
		key := eventReason(condition) + o.Reason
		shown := conditions.GetReason(obj, condition) == o.Reason
		if o.Kind != Stalled || !shown || reported[key] {
			continue
		}
		reported[key] = true
		recorder.Eventf(obj, nil, corev1.EventTypeWarning, cmp.Or(eventReason(condition), o.Reason), "Hold", "%s", eventText(o.Message))
	}
}

// eventReason returns the reason of the condition's events, or "" to use the condition's own reason. A held deletion is worth
// an event even if another condition already waited for the same reason.
func eventReason(condition string) string {
	if condition == clusterv1.DeletingCondition {
		return infrav1.EventDeletionHeld
	}
	return ""
}

// Object has conditions and can have events.
type Object interface {
	conditions.Getter
	runtime.Object
}

// eventText returns the message of a condition as the text of an event, at most eventTextLimit bytes long.
func eventText(message string) string {
	message = sentence(message)
	if len(message) <= eventTextLimit {
		return message
	}
	return strings.ToValidUTF8(message[:eventTextLimit-len("…")], "") + "…"
}
