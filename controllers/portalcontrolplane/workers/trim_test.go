// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
)

func fullNode() *corev1.Node {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "u", ResourceVersion: "7", CreationTimestamp: now, Labels: map[string]string{"role": "worker"},
		Annotations:   map[string]string{"other": "x", scaleDownDisabled: "true"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
	}}
	for _, key := range []string{
		infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.ScaleDownDisabledAnnotation,
	} {
		n.Annotations[key] = now.UTC().Format(time.RFC3339)
	}
	n.Annotations[clusterv1.OwnerNameAnnotation] = "set"
	n.Spec = corev1.NodeSpec{ProviderID: "portal://z/1", Unschedulable: true, PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{
		{Key: "other", Effect: corev1.TaintEffectNoSchedule}, {Key: autoscalerTaint, Value: "1"}, {Key: uninitializedTaint, Value: "true"}, {Key: controlMarks[1]},
	}}
	n.Status = corev1.NodeStatus{
		Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: now, Message: "m"}},
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.35.6", Architecture: "amd64", OperatingSystem: "linux", KernelVersion: "6"},
		Images:     []corev1.ContainerImage{{Names: []string{"image"}}},
	}
	return n
}

// TestTrimmedNodeReadsTheSame: a trimmed Node has everything that a plan, the selector, an event and the recorded capacity read.
func TestTrimmedNodeReadsTheSame(t *testing.T) {
	full := fullNode()
	trimmed := TrimNode(fullNode())
	read := func(n *corev1.Node) map[string]any {
		return map[string]any{
			"view": nodeViews([]corev1.Node{*n}, nil, nil, 0), "labels": n.Labels, "control": isControlNode(*n), "annotations": annotationsOf(n),
			"capacity": n.Status.Capacity, "version": n.Status.NodeInfo.KubeletVersion, "arch": n.Status.NodeInfo.Architecture,
			"system": n.Status.NodeInfo.OperatingSystem, "version of the object": n.ResourceVersion,
		}
	}
	want, got := read(full), read(trimmed)
	for key := range want {
		if !reflect.DeepEqual(got[key], want[key]) {
			t.Errorf("%s: %v, want %v", key, got[key], want[key])
		}
	}
	if text, err := json.Marshal(trimmed); err != nil || strings.Contains(string(text), "image") || strings.Contains(string(text), "kubelet\"") {
		t.Errorf("%v: kept: %s", err, text)
	}
}

// TestReadsMoreThanItAsksFor: the Nodes of a cluster that has more workers than the portal is asked for are read, so that it can be
// scaled down, up to what a connection reads.
func TestReadsMoreThanItAsksFor(t *testing.T) {
	for count, want := range map[int]string{maxWorkers + 1: "", workload.MaxObjects: "", workload.MaxObjects + 1: infrav1.TooManyNodesReason} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			all := &corev1.NodeList{Items: make([]corev1.Node, count)}
			for i := range all.Items {
				all.Items[i].Name = fmt.Sprint("w-", i)
			}
			way := access.Way{Connection: crowd{&connection{client: fake.NewClientBuilder().WithScheme(newScheme(t)).WithLists(all).Build()}}}
			nodes, o := WatchedNodes(t.Context(), &passed().Pass, way)
			if o.Reason != want || o.IsDone() != (want == "") {
				t.Errorf("%+v", o)
			}
			if want == "" && len(nodes.Workers) != count {
				t.Errorf("%d of %d Nodes were read", len(nodes.Workers), count)
			}
		})
	}
}

// crowd refuses as many Nodes as a connection does.
type crowd struct{ *connection }

func (c crowd) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.connection.List(ctx, list, opts...); err != nil {
		return err
	}
	if meta.LenList(list) > workload.MaxObjects {
		return workload.ErrOversized
	}
	return nil
}
