// SPDX-License-Identifier: Apache-2.0

// Package wakeup puts an object into its controller's work queue when the account's limiter has a token for it.
package wakeup

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// bufferSize is how many objects may be on their way into the work queue. Limiters wake one for each token, at most a few
// thousand a minute.
const bufferSize = 1024

// Wakeups holds the sources of the two controllers that call the portal. A flow is the namespace and name of a
// PortalControlPlane, or those of a PortalCluster followed by another part.
type Wakeups struct {
	clusters, controlPlanes chan event.GenericEvent
}

// New returns empty Wakeups.
func New() *Wakeups {
	return &Wakeups{clusters: make(chan event.GenericEvent, bufferSize), controlPlanes: make(chan event.GenericEvent, bufferSize)}
}

// Wake wakes the object of a flow (ratelimit.Options.Wake). It never blocks: if there is no room, the object is reconciled at
// the time that the limiter had returned.
func (w *Wakeups) Wake(flow string) {
	namespace, name, _ := strings.Cut(flow, "/")
	name, _, isCluster := strings.Cut(name, "/")
	events := w.controlPlanes
	if isCluster {
		events = w.clusters
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	select {
	case events <- event.GenericEvent{Object: object}:
	default:
	}
}

// Clusters is the source of PortalClusters.
func (w *Wakeups) Clusters() source.Source {
	return source.Channel(w.clusters, &handler.EnqueueRequestForObject{})
}

// ControlPlanes is the source of PortalControlPlanes.
func (w *Wakeups) ControlPlanes() source.Source {
	return source.Channel(w.controlPlanes, &handler.EnqueueRequestForObject{})
}
