// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestNodeState checks that nodeState returns the latest stage that a Node's drain has reached.
func TestNodeState(t *testing.T) {
	for want, node := range map[page.NodeState]corev1.Node{
		"":                {},
		page.NodeCordoned: {Spec: corev1.NodeSpec{Unschedulable: true}},
		page.NodeDraining: {Spec: corev1.NodeSpec{Unschedulable: true}, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{infrav1.DrainStartedAnnotation: "now"}}},
		page.NodeDrained: {Spec: corev1.NodeSpec{Unschedulable: true}, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			infrav1.DrainStartedAnnotation: "now", infrav1.DrainedAnnotation: "now"}}},
	} {
		if got := nodeState(&node); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAct checks that a command runs in the sandbox's environment, and that its output explains a failure.
func TestAct(t *testing.T) {
	s := &Sandbox{Kubeconfig: "a-kubeconfig"}
	if out, err := s.act(t.Context(), "echo $KUBECONFIG"); err != nil || out != "a-kubeconfig" {
		t.Errorf("%q %v", out, err)
	}
	if _, err := s.act(t.Context(), "echo no such Machine >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "no such Machine") {
		t.Errorf("a command that fails: %v", err)
	}
}
