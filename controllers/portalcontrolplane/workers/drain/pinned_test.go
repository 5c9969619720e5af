// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// podServer is an API server that lists Pods as a real one does: it selects by namespace and fields, and answers in pages, in JSON.
type podServer struct {
	pods     []corev1.Pod
	requests int // for Pods
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, namespace := strings.TrimPrefix(r.URL.Path, "/api/v1/"), ""
	if rest, found := strings.CutPrefix(resource, "namespaces/"); found {
		namespace, resource, _ = strings.Cut(rest, "/")
	}
	if resource != "pods" { // the connection asks for more
		http.NotFound(w, r)
		return
	}
	s.requests++
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.page(namespace, r))
}

// page returns the page of Pods, or of their metadata, that the request asks for.
func (s *podServer) page(namespace string, r *http.Request) any {
	query := r.URL.Query()
	selector := fields.ParseSelectorOrDie(query.Get("fieldSelector"))
	chosen := slices.DeleteFunc(slices.Clone(s.pods), func(p corev1.Pod) bool {
		has := fields.Set{"spec.nodeName": p.Spec.NodeName, "status.phase": string(p.Status.Phase)}
		return namespace != "" && p.Namespace != namespace || !selector.Matches(has)
	})
	from, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	meta, to := metav1.ListMeta{}, min(from+limit, len(chosen))
	if to < len(chosen) {
		meta.Continue = strconv.Itoa(to)
	}
	if !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		return corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: meta, Items: chosen[from:to]}
	}
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta}
	for _, p := range chosen[from:to] {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta})
	}
	return list
}

// connect returns the client of a connection to the server.
func (s *podServer) connect(t *testing.T) client.Client {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	stored := kubeconfigs.For(fmt.Sprintf("server: '%s', certificate-authority-data: %s", server.URL, authority), "token: t")
	c := &workload.Connections{
		Dial: func(*url.URL) workload.DialFunc { return new(net.Dialer).DialContext },
		QPS:  20, Burst: 30, Trim: func(n *corev1.Node) *corev1.Node { return n },
	}
	key := client.ObjectKey{Namespace: "default", Name: "prod"}
	t.Cleanup(func() { c.Drop(key) })
	return c.Ensure(key, []byte(stored)).Client()
}

// add puts so many Pods on a Node.
func (s *podServer) add(count int, namespace, node string, change ...func(*corev1.Pod)) {
	for range count {
		p := pod(fmt.Sprintf("p-%03d", len(s.pods)), change...)
		p.Namespace, p.Spec.NodeName = namespace, node
		s.pods = append(s.pods, p)
	}
}

var unsafe = annotated(safeToEvict, "false")

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// TestPinnedNodes checks which Pods keep the cluster autoscaler from removing their Node, and how many requests it takes to find them.
func TestPinnedNodes(t *testing.T) {
	tests := map[string]struct {
		pods     func(*podServer)
		want     []string
		requests int
	}{
		"no annotation":        {func(s *podServer) { s.add(1, "apps", "n1", in(corev1.PodRunning)) }, nil, 1},
		"running":              {func(s *podServer) { s.add(1, "apps", "n1", unsafe, in(corev1.PodRunning)) }, []string{"n1"}, 2},
		"pending, on its Node": {func(s *podServer) { s.add(1, "apps", "n1", unsafe, in(corev1.PodPending)) }, []string{"n1"}, 2},
		"pending, without one": {func(s *podServer) { s.add(1, "apps", "", unsafe, in(corev1.PodPending)) }, nil, 1},
		"succeeded":            {func(s *podServer) { s.add(1, "apps", "n1", unsafe, in(corev1.PodSucceeded)) }, nil, 1},
		"failed":               {func(s *podServer) { s.add(1, "apps", "n1", unsafe, in(corev1.PodFailed)) }, nil, 1},
		"safe":                 {func(s *podServer) { s.add(1, "apps", "n1", annotated(safeToEvict, "true")) }, nil, 1},
		"another value":        {func(s *podServer) { s.add(1, "apps", "n1", annotated(safeToEvict, "")) }, nil, 1},
		"500 jobs of a CI, half of them finished": {func(s *podServer) {
			s.add(250, "ci", "n1", unsafe, in(corev1.PodSucceeded))
			s.add(250, "ci", "n2", unsafe, in(corev1.PodRunning))
			s.add(100, "apps", "n3", in(corev1.PodRunning))
		}, []string{"n2"}, 4},
		"pages of others, in a namespace with such Pods": {func(s *podServer) {
			s.add(100, "ci", "n1", unsafe)
			s.add(150, "ci", "n2")
		}, []string{"n1"}, 4},
		"in 20 namespaces": {func(s *podServer) {
			for i := range 20 {
				s.add(1, fmt.Sprint("ns-", i), "n1", unsafe)
			}
		}, []string{"n1"}, 2},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := &podServer{}
			test.pods(s)
			want := map[string]bool{}
			for _, node := range test.want {
				want[node] = true
			}
			got, err := PinnedNodes(t.Context(), s.connect(t))
			if diff := cmp.Diff(want, got); diff != "" || err != nil || s.requests != test.requests {
				t.Errorf("%d requests, want %d; error %v; %s", s.requests, test.requests, err, diff)
			}
		})
	}
}

// TestPinnedOfEndlessPods: an API server whose pages of Pods do not end does not hold a pass forever.
func TestPinnedOfEndlessPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := 0
		workload := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme(t)).Build(), interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				if pages++; pages > 1000 {
					t.Fatal("1,000 pages were read")
				}
				list.SetContinue("more")
				time.Sleep(100 * time.Millisecond)
				return ctx.Err()
			},
		})
		if _, err := PinnedNodes(t.Context(), workload); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d pages: %v", pages, err)
		}
	})
}
