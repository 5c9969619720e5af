// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// nodes are those that are kept, when the first list has arrived.
func (f *fixture) nodes(patience time.Duration) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for f.connect("a").Health() == Connecting && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	all := &corev1.NodeList{}
	err := f.connect("a").List(ctx, all)
	return all.Items, err
}

// TestBusyNodes: more workers than the provider asks for can be read, so that a cluster which has more can be scaled down: in one list, and by
// the watch.
func TestBusyNodes(t *testing.T) {
	const count = 800
	body := busyList(t, count)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if !watches(w, r) {
			answerJSON(body)(w, r)
		}
	})
	f.probed = true
	kept, err := f.nodes(2 * time.Minute) // the race detector is slow
	if err != nil || len(kept) != count {
		t.Errorf("%d of %d Nodes are kept: %v", len(kept), count, err)
	}
	listed, err := f.connect("a").lister.List(metav1.ListOptions{})
	if err != nil || meta.LenList(listed) != count {
		t.Fatalf("not %d Nodes, %d bytes: %v", count, len(body), err)
	}
}

// TestEndlessPages: the bounds are those of a whole list. A reflector asks for further pages for as long as an API server names any, so it
// gets none, and no streamed list. An API server that honors a page's size is not asked for pages, and gives all its Nodes at once.
func TestEndlessPages(t *testing.T) {
	const pages = 100 // then the test has seen enough
	var lists, continued, limited atomic.Int32
	var streamed atomic.Bool // the size of a streamed list is never known
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		streamed.Store(streamed.Load() || query.Has("sendInitialEvents"))
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
	f.probed = true
	for f.connect("a"); lists.Load() < 2; {
		time.Sleep(10 * time.Millisecond)
	}
	nodes, err := f.nodes(time.Second)
	if streamed.Load() || continued.Load() > 0 || limited.Load() > 0 || err == nil {
		t.Errorf("streamed: %t, %d of %d lists were continued, %d limited: %d Nodes", streamed.Load(), continued.Load(), lists.Load(), limited.Load(), len(nodes))
	}
}

// TestIdle: a connection in which nothing happens needs at most 8 goroutines and 0.25 MiB. The memory of the API server is counted too, and
// the race detector needs some.
func TestIdle(t *testing.T) {
	const count = 50
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if !watches(w, r) {
			answerJSON(list(`{"metadata":{"name":"n"}},{"metadata":{"name":"m"}},{"metadata":{"name":"l"}}`))(w, r)
		}
	})
	f.probed = true
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var all runtime.MemStats
		runtime.ReadMemStats(&all)
		return all.HeapInuse + all.StackInuse
	}
	ours := func() (n int) {
		stacks := make([]byte, 16<<20)
		for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if !strings.Contains(one, "net/http.(*conn)") && !strings.Contains(one, "net/http.(*connReader)") {
				n++
			}
		}
		return n
	}
	goroutines, before := ours(), memory()
	for i := range count {
		f.Ensure(keyOf(fmt.Sprint("idle-", i)), f.kubeconfig)
	}
	for i := range count {
		c := f.Ensure(keyOf(fmt.Sprint("idle-", i)), f.kubeconfig)
		for c.Health() != Working {
			time.Sleep(10 * time.Millisecond)
		}
		if err := c.List(t.Context(), &corev1.NodeList{}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	each := float64(ours()-goroutines) / count
	size := float64(memory()-before) / count / (1 << 20)
	t.Logf("%.1f goroutines and %.3f MiB each", each, size)
	if each > 8 || size > 0.35 {
		t.Errorf("%.1f goroutines and %.3f MiB each", each, size)
	}
}
