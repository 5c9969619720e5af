// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// busyNode is what the kubelet of a busy node reports: 50 images, which is its default limit, each with a digest and a tag.
func busyNode(i int) corev1.Node {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	name := fmt.Sprintf("prod-c4cwp-w-%05d", i)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "0e6b8f3a-7c0c-4c55-9d54-5a1e3a2b0f11", CreationTimestamp: now}}
	n.Labels, n.Annotations = map[string]string{}, map[string]string{}
	for i := range 10 {
		n.Labels[fmt.Sprintf("node.example.com/some-longer-label-%d", i)] = name
		n.Annotations[fmt.Sprintf("node.example.com/some-longer-annotation-%d", i)] = name
	}
	n.Status.Capacity = corev1.ResourceList{}
	for _, r := range []corev1.ResourceName{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi"} {
		n.Status.Capacity[r] = resource.MustParse("32768Ki")
	}
	n.Status.Allocatable = n.Status.Capacity
	for _, c := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: c, Status: "False", LastHeartbeatTime: now, LastTransitionTime: now, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
		})
	}
	for i := range 50 {
		repository := fmt.Sprintf("registry.example.com/platform/team-%02d/some-service-name", i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{repository + "@sha256:" + strings.Repeat("0", 64), repository + ":v1.27.13-20260101"}, SizeBytes: 123456789,
		})
	}
	managed := `{"f:status":{` + strings.Repeat(`"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:status":{}}},`, 40) + `"f:x":{}}}`
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(managed)}}
	return n
}

// busyList is a list of so many busy Nodes.
func busyList(t *testing.T, count int) string {
	t.Helper()
	items := make([]string, count)
	for i := range items {
		text, err := json.Marshal(busyNode(i))
		if err != nil {
			t.Fatal(err)
		}
		items[i] = string(text)
	}
	if size := len(items[0]); size < 18_000 || size > 20_000 {
		t.Fatalf("a Node has %d bytes, but those of real kubelets have 19 kB", size)
	}
	return list(strings.Join(items, ","))
}

// informer lists and watches Nodes as the ClusterCache does.
func (f *fixture) informer(ctx context.Context) cache.SharedIndexInformer {
	lists := cache.NewListWatchFromClient(f.client("a").CoreV1().RESTClient(), "nodes", "", fields.Everything())
	informer := cache.NewSharedIndexInformer(lists, &corev1.Node{}, 0, cache.Indexers{})
	go informer.RunWithContext(ctx)
	return informer
}

// watches answers a watch that nothing happens in, and reports whether the request was one.
func watches(w http.ResponseWriter, r *http.Request) bool {
	if !r.URL.Query().Has("watch") {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
	return true
}

// TestBusyNodes: as many workers as the provider asks for can be read, and more, so that a cluster which has more can be scaled
// down: in one list, and by the cache.
func TestBusyNodes(t *testing.T) {
	for _, count := range []int{500, 800} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			body := busyList(t, count)
			f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
				if !watches(w, r) {
					answerJSON(body)(w, r)
				}
			})
			nodes, err := f.client("a").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(nodes.Items) != count {
				t.Fatalf("%d of %d Nodes, %d bytes: %v", len(nodes.Items), count, len(body), err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			informer := f.informer(ctx)
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) || len(informer.GetStore().List()) != count {
				t.Errorf("the cache has %d of %d Nodes", len(informer.GetStore().List()), count)
			}
			if f.gateway.Oversized(client.ObjectKey{Namespace: "a", Name: "prod"}) {
				t.Error("the list counts as too large")
			}
		})
	}
}

// TestEndlessPages: the bounds are those of a whole list. The cache asks for further pages for as long as an API server names any,
// so it gets none. An API server that honors a page's size is not asked for pages, and gives all its Nodes at once.
func TestEndlessPages(t *testing.T) {
	const pages = 100 // then the test has seen enough
	var lists, continued, limited atomic.Int32
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if watches(w, r) {
			return
		}
		lists.Add(1)
		if query.Has("limit") {
			limited.Add(1)
		}
		further := `"continue":"more",`
		if query.Has("continue") && continued.Add(1) >= pages {
			further = ""
		}
		answerJSON(strings.Replace(list(strings.Repeat("{},", MaxObjects-2)+"{}"), `"metadata":{`, `"metadata":{`+further, 1))(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	informer := f.informer(ctx)
	for lists.Load() < 2 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if continued.Load() > 0 || limited.Load() > 0 || informer.HasSynced() {
		t.Errorf("%d of %d lists were continued, %d limited", continued.Load(), lists.Load(), limited.Load())
	}
}
