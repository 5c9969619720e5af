// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// eventTextLimit is the longest text of an event that the API server accepts, and eventTextCut ends a text that was longer.
const eventTextLimit, eventTextCut = 1024, "… (the manager's log has the whole text)"

// Recorder cuts the texts of events to eventTextLimit, and logs each event with its whole text. The log may be the only place of a text: the
// API server accepts no events in a namespace that is being deleted.
type Recorder struct {
	events.EventRecorder
	Log logr.Logger
}

// Eventf implements events.EventRecorder.
func (r Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	obj, _ := regarding.(client.Object)
	r.Log.Info("Event", "object", klog.KObj(obj), "type", eventtype, "reason", reason, "text", text)
	if len(text) > eventTextLimit {
		text = strings.ToValidUTF8(text[:eventTextLimit-len(eventTextCut)], "") + eventTextCut
	}
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, "%s", text)
}

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
		recorder.Eventf(obj, nil, corev1.EventTypeWarning, cmp.Or(eventReason(condition), o.Reason), "Hold", "%s", sentence(o.Message))
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
