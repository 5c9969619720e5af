// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// BenchmarkPinnedPods measures what a look at the Pods of an autoscaled cluster costs the manager: 100 Pods whose metadata has 3 kB
// each, through a connection. 300 clusters are looked at 30 times a second. The API server is in the same process. Its CPU time, and
// that of a plain client, is measured first and subtracted.
func BenchmarkPinnedPods(b *testing.B) {
	body, err := json.Marshal(podList(100))
	if err != nil {
		b.Fatal(err)
	}
	var requests, sent atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		n, _ := w.Write(body)
		sent.Add(int64(n))
	}))
	b.Cleanup(server.Close)
	pods := newWorkloadClient(b, server)
	const times = 200
	alone := cpuTime(b, func() {
		for range times {
			response, err := server.Client().Get(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}) / times
	requests.Store(0)
	sent.Store(0)
	took := cpuTime(b, func() {
		for b.Loop() {
			if _, err := PinnedNodes(b.Context(), pods); err != nil {
				b.Fatal(err)
			}
		}
	})/time.Duration(b.N) - alone
	looks := float64(b.N)
	b.ReportMetric(float64(requests.Load())/looks, "requests/op")
	b.ReportMetric(float64(sent.Load())/looks, "bytes/op")
	b.ReportMetric(float64(took.Microseconds()), "CPU-µs/op")
	b.ReportMetric(30*float64(requests.Load())/looks, "requests/s-of-300")
	b.ReportMetric(30*float64(sent.Load())/looks/1e6, "MB/s-of-300")
	b.ReportMetric(30*took.Seconds(), "cores-of-300")
}

// newWorkloadClient returns a client that reaches the API server as those of connections do.
func newWorkloadClient(b testing.TB, server *httptest.Server) client.Client {
	b.Helper()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	stored := kubeconfigs.For(fmt.Sprintf("server: '%s', certificate-authority-data: %s", server.URL, authority), "token: t")
	c := &workload.Connections{
		Dial: func(*url.URL) workload.DialFunc { return new(net.Dialer).DialContext },
		QPS:  20, Burst: 30, Trim: func(n *corev1.Node) *corev1.Node { return n },
	}
	key := client.ObjectKey{Namespace: "default", Name: "prod"}
	b.Cleanup(func() { c.Drop(key) })
	return c.Ensure(key, []byte(stored)).Client()
}

// podList is the metadata of Pods as a client sees it that asks for no more.
func podList(count int) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
	managed := `{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:app":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{}},`, 28) + `"f:x":{}}}`
	for i := range count {
		pod := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: fmt.Sprintf("service-%d-6c8f9d7b5-abcde", i), UID: "0e6b8f3a-7c0c-4c55-9d54-5a1e3a2b0f11"}}
		pod.Labels = map[string]string{"app.kubernetes.io/name": "service", "app.kubernetes.io/instance": "service", "pod-template-hash": "6c8f9d7b5"}
		pod.Annotations = map[string]string{"checksum/config": strings.Repeat("0", 64)}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(managed)}}
		list.Items = append(list.Items, pod)
	}
	return list
}

// cpuTime returns the CPU time of the process that the work takes.
func cpuTime(b *testing.B, work func()) time.Duration {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	work()
	return used() - before
}
