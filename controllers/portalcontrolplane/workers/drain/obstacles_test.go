// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// worker returns a Ready Node with so much CPU.
func worker(name, cpu string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// podOf returns a Pod that runs on the Node, requests so much CPU, and belongs to a controller of the kind, or to none.
func podOf(kind, name, node, cpu string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: ptr.To(true)}}
	}
	return pod
}

func budget(name string, expected, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Status.ExpectedPods, b.Status.DisruptionsAllowed = expected, allowed
	return b
}

// TestObstacles has what may stop an upgrade, and what does not.
func TestObstacles(t *testing.T) {
	notReady, cordoned := worker("n2", "4"), worker("n2", "4")
	notReady.Status.Conditions[0].Status = corev1.ConditionUnknown
	cordoned.Spec.Unschedulable = true
	finished, static := podOf("", "finished", "n1", "9"), podOf("", "static", "n1", "9")
	finished.Status.Phase = corev1.PodSucceeded
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
	tests := map[string]struct {
		second  corev1.Node
		objects []client.Object
		want    []string
	}{
		"nothing": {worker("n2", "4"), []client.Object{podOf("ReplicaSet", "web", "n1", "3"), budget("web", 2, 1)}, nil},
		"neither finished Pods, nor Pods of the kubelet or a DaemonSet, nor those of control nodes": {
			worker("n2", "4"), []client.Object{finished, static, podOf("DaemonSet", "agent", "n1", "9"), podOf("", "control", "n0", "9")}, nil,
		},
		"a budget without Pods":         {worker("n2", "4"), []client.Object{budget("web", 0, 0)}, nil},
		"a budget that allows nothing":  {worker("n2", "4"), []client.Object{budget("web", 2, 0)}, []string{"PodDisruptionBudgets that allow no disruption: shop/web"}},
		"a Pod without a controller":    {worker("n2", "4"), []client.Object{podOf("", "debug", "n1", "0")}, []string{"Pods without a controller: shop/debug"}},
		"a Node that is not Ready":      {notReady, nil, []string{"Nodes that are not Ready: n2"}},
		"a cordoned Node":               {cordoned, nil, []string{"cordoned Nodes: n2"}},
		"no room":                       {worker("n2", "2"), []client.Object{podOf("ReplicaSet", "web", "n1", "3")}, []string{"no room for the Pods of one of these Nodes on the others: n1"}},
		"no room, because it is in use": {worker("n2", "4"), []client.Object{podOf("ReplicaSet", "web", "n1", "2"), podOf("DaemonSet", "agent", "n2", "3")}, []string{"no room for the Pods of one of these Nodes on the others: n1"}},
		"many": {worker("n2", "4"), []client.Object{podOf("", "a", "n1", "0"), podOf("", "b", "n1", "0"), podOf("", "c", "n1", "0"), podOf("", "d", "n2", "0"), podOf("", "e", "n2", "0")},
			[]string{"Pods without a controller: shop/a, shop/b, shop/c and 2 more"}},
	}
	for title, test := range tests {
		workload := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(test.objects...).Build()
		if diff := cmp.Diff(test.want, Obstacles(t.Context(), workload, []corev1.Node{worker("n1", "4"), test.second})); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}

// TestObstaclesThatCannotBeRead has an API server that forbids lists, and one whose pages do not end and whose names are not names.
func TestObstaclesThatCannotBeRead(t *testing.T) {
	pages := 0
	list := func(answer func(list client.ObjectList) error) client.Client {
		return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme(t)).Build(), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				return answer(list)
			},
		})
	}
	forbids := list(func(client.ObjectList) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "", fmt.Errorf("no"))
	})
	endless := list(func(list client.ObjectList) error {
		pages++
		if pods, ok := list.(*corev1.PodList); ok {
			for range lookPage {
				pods.Items = append(pods.Items, *podOf("", strings.Repeat("x\n", 1000), "n1", "1"))
			}
		}
		list.SetContinue("more")
		return nil
	})
	for _, test := range []struct {
		workload client.Client
		want     []string
	}{
		{forbids, []string{"Pods that cannot be listed: forbidden", "PodDisruptionBudgets that cannot be listed: forbidden"}},
		{endless, []string{
			"Pods without a controller: one with a malformed name, one with a malformed name, one with a malformed name and 9997 more",
			"Pods that cannot be listed: the manager's log has the error",
			"no room for the Pods of one of these Nodes on the others: n1",
			"PodDisruptionBudgets that cannot be listed: the manager's log has the error",
		}},
	} {
		if diff := cmp.Diff(test.want, Obstacles(t.Context(), test.workload, []corev1.Node{worker("n1", "4")})); diff != "" {
			t.Error(diff)
		}
	}
	if pages > 2*lookPages {
		t.Errorf("%d pages were read", pages)
	}
}
