// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestNodeBeforeItsCloudController has a Node that is Ready before the portal's cloud controller has initialized it. A providerID can never
// be changed, so the Node keeps none until the cloud controller sets the one by which it finds the machine. The Machine waits, the condition
// names the Node, and then the Machine gets the Node with that providerID.
func TestNodeBeforeItsCloudController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, emulator.Durations{})
		change := func(change func(*corev1.Node)) {
			n := f.worker()
			change(&n)
			if err := f.nodes.Update(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
		}
		change(func(n *corev1.Node) {
			n.Spec.ProviderID = ""
			n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		})
		f.machine("m", func(*clusterv1.Machine) {})
		var s *scope
		for range 30 {
			s = f.pass()
			time.Sleep(10 * time.Second)
		}
		if id := f.worker().Spec.ProviderID; id != "" {
			t.Errorf("the provider gave the Node the providerID %s, which the cloud controller can never correct", id)
		}
		claim := &infrav1.PortalMachine{}
		held := func() string {
			if err := f.store.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "m"}, claim); err != nil {
				t.Fatal(err)
			}
			return claim.Spec.ProviderID
		}
		if id := held(); id != "" {
			t.Errorf("the Machine has the Node, as %s, and no Pod can run there", id)
		}
		c := conditions.Get(s.ControlPlane, infrav1.WorkersReadyCondition)
		if c.Reason != infrav1.WaitingForNodesReason || !strings.Contains(c.Message, f.worker().Name) || !strings.Contains(c.Message, "cloud controller") {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
		if len(f.answers("scale")) > 0 || *s.ControlPlane.Status.Workers != (infrav1.WorkerCounts{Desired: 1, Size: 1, Nodes: 1}) {
			t.Errorf("the Node does not count as a worker: %+v", s.ControlPlane.Status.Workers)
		}
		change(func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints = "cloud://zone/1", nil })
		f.pass()
		if id := held(); id != "cloud://zone/1" || f.worker().Spec.ProviderID != id {
			t.Errorf("the Machine has %q, the Node %q", id, f.worker().Spec.ProviderID)
		}
	})
}
