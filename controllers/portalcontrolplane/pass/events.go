// SPDX-License-Identifier: Apache-2.0

package pass

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Event reports that something happened.
func (p *Pass) Event(reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, nil, corev1.EventTypeNormal, reason, action, format, args...)
}

// Warn reports that something happened that a person should look at.
func (p *Pass) Warn(reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, nil, corev1.EventTypeWarning, reason, action, format, args...)
}

// EventAbout is Event about a Node or Machine.
func (p *Pass) EventAbout(kind, name, reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, Related(kind, name), corev1.EventTypeNormal, reason, action, format, args...)
}

// WarnAbout is Warn about a Node or Machine.
func (p *Pass) WarnAbout(kind, name, reason, action, format string, args ...any) {
	p.Recorder.Eventf(p.ControlPlane, Related(kind, name), corev1.EventTypeWarning, reason, action, format, args...)
}

// WarnBoth is Warn about the control plane and the Cluster, which people look at first.
func (p *Pass) WarnBoth(reason, action, format string, args ...any) {
	p.Warn(reason, action, format, args...)
	if p.Cluster != nil {
		p.Recorder.Eventf(p.Cluster, nil, corev1.EventTypeWarning, reason, action, format, args...)
	}
}

// WarnUndrained warns of nodes that a scale-down removed although they were not drained, if there are any.
func (p *Pass) WarnUndrained(nodes []string, why string) {
	if len(nodes) == 0 {
		return
	}
	metrics.UndrainedRemoved(p.ControlPlane.Namespace, p.ControlPlane.Name, len(nodes))
	p.WarnBoth(infrav1.EventUndrainedWorkersRemoved, "scale", "The portal removed %s without a drain, so Pods there were killed without an eviction. %s",
		outcome.Names(nodes), why)
}

// Related returns the related object of an event. The recorder counts events of one pass that differ in nothing but their text as one, and
// keeps only the first text.
func Related(kind, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: kind, Name: name}
}
