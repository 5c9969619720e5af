// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestUnavailable checks that a step ends only when the Cluster does not have the message of the upgrade any more. Otherwise the table at the
// end of the step would say that the upgrade runs.
func TestUnavailable(t *testing.T) {
	for message, want := range map[string]string{
		"": "",
		"* ControlPlaneAvailable: The cluster runs v1.34.9.\n  The portal is upgrading it": "Cluster is Available: * ControlPlaneAvailable: The cluster runs v1.34.9. The portal is upgrading it",
	} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: clusterName}}
		cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Message: message}}
		d := &demo{Sandbox: &sandbox.Sandbox{
			Client:   fake.NewClientBuilder().WithScheme(schemes.Of(t, clusterv1.AddToScheme)).WithObjects(cluster).Build(),
			Identity: client.ObjectKey{Namespace: "default", Name: "id"},
		}}
		if got, err := d.unavailable(t.Context()); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
