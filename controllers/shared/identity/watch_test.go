// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestEventFilter: with --watch-filter, all Secrets pass, and other objects only with the label.
func TestEventFilter(t *testing.T) {
	scheme := schemes.Of(t, infrav1.AddToScheme)
	metadata := func(kind string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
	}
	labelled := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: "east"}}}
	tests := map[string]struct {
		obj    client.Object
		filter string
		passes bool
	}{
		"everything without a filter": {&infrav1.PortalCluster{}, "", true},
		"no label":                    {&infrav1.PortalCluster{}, "east", false},
		"the label":                   {labelled, "east", true},
		"a Secret":                    {&corev1.Secret{}, "east", true},
		"a Secret's metadata":         {metadata("Secret"), "east", true},
		"a PortalClusterIdentity":     {&infrav1.PortalClusterIdentity{}, "east", true},
		"another kind's metadata":     {metadata("ConfigMap"), "east", false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if passes := EventFilter(scheme, logr.Discard(), test.filter).Create(event.CreateEvent{Object: test.obj}); passes != test.passes {
				t.Errorf("passes: %v", passes)
			}
			if !isIdentity(test.obj) && Watched(test.obj, test.filter) != test.passes {
				t.Errorf("watched: %v", !test.passes)
			}
		})
	}
}
