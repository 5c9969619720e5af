// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestNodeChanged checks which changes of a Node wake a pass: those of the parts that are kept, which TestTrimmedNodeReadsTheSame has. A kubelet
// writes its heartbeat every few minutes, and its images and volumes whenever Pods come and go: these must not.
func TestNodeChanged(t *testing.T) {
	type change func(*corev1.Node)
	ready := func(status corev1.ConditionStatus, at time.Time) change {
		return func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = status, metav1.NewTime(at)
		}
	}
	later := time.Unix(1000, 0)
	tests := map[string]struct {
		before, after change
		want          bool
	}{
		"nothing": {nil, nil, false},
		"a heartbeat": {nil, func(n *corev1.Node) {
			ready(corev1.ConditionTrue, later)(n)
			n.ResourceVersion, n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "2", "KubeletReady", "posting"
		}, false},
		"images":                    {nil, func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"a"}}} }, false},
		"volumes":                   {nil, func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"a"} }, false},
		"a label":                   {nil, func(n *corev1.Node) { n.Labels = map[string]string{"by": "a user"} }, true},
		"an annotation of others":   {nil, note("volumes.kubernetes.io/controller-managed-attach-detach", "true"), false},
		"a taint of others":         {nil, taint("their.example/taint"), false},
		"from not Ready to unknown": {ready(corev1.ConditionFalse, later), ready(corev1.ConditionUnknown, later), true},
		"another condition": {nil, func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Broken", Status: corev1.ConditionTrue})
		}, true},
		"a cordon":                   {nil, cordon, true},
		"drained":                    {nil, note(infrav1.DrainedAnnotation, "x"), true},
		"held by another MachineSet": {note(clusterv1.OwnerNameAnnotation, "a-1"), note(clusterv1.OwnerNameAnnotation, "a-2"), true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var both []*corev1.Node
			for _, change := range []change{test.before, test.after} {
				n := nodeWith()
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				if change != nil {
					change(n)
				}
				both = append(both, n)
			}
			both[1].ResourceVersion = both[0].ResourceVersion
			if got := !equality.Semantic.DeepEqual(TrimNode(both[0]), TrimNode(both[1])); got != test.want {
				t.Errorf("wakes: %t", got)
			}
		})
	}
}
