// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const driver = "csi.portal.example"

// volume is a PersistentVolume that the claim of that name in the namespace default is bound to.
func volume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + name}
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name}
	return v
}

func attachment(volume, node string, attached bool) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-" + volume}}
	a.Spec.NodeName, a.Spec.Source.PersistentVolumeName, a.Status.Attached = node, ptr.To(volume), attached
	return a
}

func using(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
	}
}

// TestVolumes checks for which volumes a drain waits when the Pods are gone.
func TestVolumes(t *testing.T) {
	onNode := func(names ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for _, name := range names {
				n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^handle-" + name)})
			}
		}
	}
	none := func(*corev1.Node) {}
	lost := func(n *corev1.Node) {
		onNode("data")(n)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	}
	agent := func(claim string) []corev1.Pod {
		return []corev1.Pod{pod("agent", ownedBy("DaemonSet", "agents"), using(claim))}
	}
	loose := volume("data")
	loose.Spec.ClaimRef = nil
	const data = "volumes are still attached: PersistentVolumeClaim default/data"
	tests := map[string]struct {
		node    func(*corev1.Node)
		objects []client.Object
		pods    []corev1.Pod
		want    string
	}{
		"none":                        {none, []client.Object{volume("data")}, nil, ""},
		"on the Node":                 {onNode("data"), []client.Object{volume("data")}, nil, data},
		"being detached":              {none, []client.Object{volume("data"), attachment("data", "n1", true)}, nil, data},
		"both, counted once":          {onNode("data"), []client.Object{volume("data"), attachment("data", "n1", true)}, nil, data},
		"detached":                    {none, []client.Object{volume("data"), attachment("data", "n1", false)}, nil, ""},
		"of another Node":             {none, []client.Object{volume("data"), attachment("data", "n2", true)}, nil, ""},
		"of a DaemonSet, which stays": {onNode("data"), []client.Object{volume("data")}, agent("data"), ""},
		"and one of a Pod that went":  {onNode("data", "cache"), []client.Object{volume("data"), volume("cache")}, agent("cache"), data},
		"without a claim":             {onNode("data"), []client.Object{loose}, nil, "volumes are still attached: PersistentVolume data"},
		"without a PersistentVolume":  {onNode("data"), nil, nil, "volumes are still attached: kubernetes.io/csi/" + driver + "^handle-data"},
		"the kubelet is lost":         {lost, []client.Object{volume("data")}, nil, ""},
		"many": {onNode("a", "b", "c", "d", "e", "f", "g"), nil, nil, "volumes are still attached: kubernetes.io/csi/" + driver + "^handle-a, kubernetes.io/csi/" + driver +
			"^handle-b, kubernetes.io/csi/" + driver + "^handle-c, kubernetes.io/csi/" + driver + "^handle-d, kubernetes.io/csi/" + driver + "^handle-e, 2 more"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s, n := newAPIServer(t, test.pods...), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			test.node(n)
			for _, o := range test.objects {
				if err := s.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
					t.Fatal(err)
				}
			}
			if got := Volumes(t.Context(), s.Client, s.Client, &clusterv1.Cluster{}, n, Rules{}); got != test.want {
				t.Errorf("waits for %q, want %q", got, test.want)
			}
		})
	}
}
