// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// pod returns a Pod on the node w1, which a ReplicaSet controls unless it is bare.
func pod(name string, bare bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "w1"}}
	if !bare {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u", Controller: ptr.To(true)}}
	}
	return p
}

// TestBarePodFailsTheDrain drains a node with a Pod without a controller. The drain fails at once, evicts nothing, and leaves the node cordoned.
// Without the trait, or if the Pod has ended, it goes on to the evictions.
func TestBarePodFailsTheDrain(t *testing.T) {
	ended := pod("bare", true)
	ended.Status.Phase = corev1.PodSucceeded
	for name, test := range map[string]struct {
		stay  bool
		bare  *corev1.Pod
		fails bool
	}{
		"bare Pods stay":    {true, pod("bare", true), true},
		"they are evicted":  {false, pod("bare", true), false},
		"it has ended":      {true, ended, false},
		"it has controller": {true, pod("bare", false), false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(newNode(emulator.Node{Name: "w1", ID: "m1"}, "10.0.0.1", emulator.MarkedBoth), pod("web", false), test.bare)
			c := &cluster{client: client, barePodsStay: test.stay}
			err := c.drain(t.Context(), "w1", -time.Second) // one attempt
			named := err != nil && strings.Contains(err.Error(), "without a controller") && strings.HasSuffix(err.Error(), ": default/bare")
			if named != test.fails {
				t.Errorf("the drain: %v", err)
			}
			evicts := slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetSubresource() == "eviction" })
			if evicts == test.fails {
				t.Errorf("evictions: %t", evicts)
			}
			if node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{}); err != nil || !node.Spec.Unschedulable {
				t.Errorf("%v: the node is not cordoned", err)
			}
		})
	}
}

// TestStoppedMachineStaysStopped stops a machine. Its heartbeats end, and a change of the cluster does not let them begin again.
func TestStoppedMachineStaysStopped(t *testing.T) {
	machine := emulator.Node{Name: "w1", ID: "m1", Version: "v1.36.3"}
	client := fake.NewClientset(newNode(machine, "10.0.0.1", emulator.MarkedBoth))
	c := &cluster{client: client, registered: map[string]string{}}
	beats := func() bool {
		t.Helper()
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return hasKubelet(node)
	}
	apply := func() {
		t.Helper()
		if _, err := c.applyNodes(t.Context(), []emulator.Node{machine}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.setHeartbeats(t.Context(), "w1", false); err != nil || beats() {
		t.Fatalf("the heartbeats did not end: %v", err)
	}
	machine.Stopped = true
	apply()
	if beats() {
		t.Error("a change of the cluster started the machine")
	}
	machine.Stopped = false
	apply()
	if !beats() {
		t.Error("the machine does not run again")
	}
}
