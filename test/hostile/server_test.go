// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/test/nodeapi"
)

// manner is how an API server behaves. The name of a cluster begins with the manner of its API server.
type manner string

const (
	calm    manner = "calm"    // answers as an API server does
	silent  manner = "silent"  // accepts connections, and never answers
	trickle manner = "trickle" // sends a byte a second
	stuck   manner = "stuck"   // answers until a client has connected, and never after that
	halt    manner = "halt"    // the same, and answers with its version
	crowd   manner = "crowd"   // has 24,000 Nodes
	endless manner = "endless" // has a list of Nodes without end
	paged   manner = "paged"   // has a list of Nodes whose pages do not end
)

const crowdSize = 24_000

// servers are the API servers of the portal's clusters. They run until the process ends.
type servers struct {
	met atomic.Int32 // number of hostile servers that the manager has connected to

	mu  sync.Mutex
	all map[string]*server // by the portal's cluster id
}

type server struct {
	*httptest.Server
	manner manner
	meet   func()

	mu    sync.Mutex
	nodes []corev1.Node
}

// Apply implements emulator.Workloads.
func (s *servers) Apply(_ context.Context, cluster emulator.Workload) ([]emulator.Removal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[cluster.ID]
	if one == nil {
		one = &server{manner: mannerOf(cluster.Name), meet: sync.OnceFunc(func() { s.met.Add(1) })}
		one.Server = httptest.NewUnstartedServer(one)
		one.Config.ErrorLog = log.New(io.Discard, "", 0)
		if one.manner == silent {
			one.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { one.meet(); select {} }}
		}
		one.StartTLS()
		s.all[cluster.ID] = one
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.nodes = nil
	for _, n := range cluster.Nodes {
		one.nodes = append(one.nodes, nodeOf(n))
	}
	return nil, nil
}

// Kubeconfig implements emulator.Workloads.
func (s *servers) Kubeconfig(_ context.Context, clusterID string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[clusterID]
	if one == nil {
		return nil, errors.New("no such cluster")
	}
	authority, err := certutil.EncodeCertificates(one.Certificate())
	if err != nil {
		return nil, err
	}
	return nodeapi.Kubeconfig(one.Listener.Addr().String(), authority)
}

// Delete implements emulator.Workloads.
func (s *servers) Delete(context.Context, string) error { return nil }

// mannerOf returns the manner with which the name of a cluster begins.
func mannerOf(cluster string) manner {
	for _, m := range []manner{silent, trickle, stuck, halt, crowd, endless, paged} {
		if strings.Contains(cluster, string(m)) {
			return m
		}
	}
	return calm
}

// ServeHTTP is hostile to the provider's manager only, so that core's manager does not use up the machine's memory.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	how := s.manner
	if r.UserAgent() != controllers.UserAgent {
		how = calm
	}
	if how == trickle {
		s.meet()
		for ; r.Context().Err() == nil; time.Sleep(time.Second) {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
		}
		return
	}
	if body, found := nodeapi.Discovery[r.URL.Path]; found {
		_, _ = io.WriteString(w, body)
		return
	}
	if how != calm {
		s.meet()
	}
	switch {
	case how == stuck, how == halt && r.URL.Path != "/version":
		<-r.Context().Done()
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, `{"major":"1","minor":"35","gitVersion":"v1.35.6"}`)
	case !strings.HasPrefix(r.URL.Path, "/api/v1/nodes"):
		_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`)
	case r.URL.Query().Has("sendInitialEvents"):
		http.Error(w, "not served", http.StatusBadRequest)
	case r.URL.Query().Has("watch"):
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path != "/api/v1/nodes":
		s.node(w, strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"))
	default:
		s.list(w, how)
	}
}

// node answers with one Node, also for a client that wants to change the Node.
func (s *server) node(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.Name == name {
			_ = json.NewEncoder(w).Encode(n)
			return
		}
	}
	http.Error(w, "not found", http.StatusNotFound)
}

// list answers with all Nodes. In a crowd and an endless list, each Node is as large as a real kubelet's.
func (s *server) list(w http.ResponseWriter, how manner) {
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	count, further := map[manner]int{crowd: crowdSize, endless: 1 << 30, paged: 500}[how], ""
	if how == paged {
		further = `,"continue":"more"`
	}
	_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"`+further+`},"items":[`)
	for i := range max(count, len(nodes)) {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		var err error
		if i < len(nodes) {
			err = json.NewEncoder(w).Encode(nodes[i])
		} else {
			_, err = fmt.Fprintf(w, kubelet, i)
		}
		if err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `]}`)
}

// kubelet is the format of a Node with the 50 images that a kubelet reports. Its parameter is the number of the Node.
var kubelet = func() string {
	n := nodeOf(emulator.Node{Name: "node-%[1]d", ID: "%[1]d", Version: "v1.35.6"})
	for i := range 50 {
		name := fmt.Sprintf("registry.example/some/longer/path/image-%d", i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name + "@sha256:" + strings.Repeat("0123456789abcdef", 4), name + ":v1"}, SizeBytes: 1})
	}
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // only a programming error can cause this
	}
	return string(text)
}()

func nodeOf(n emulator.Node) corev1.Node {
	node := corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID("uid-" + n.ID), ResourceVersion: "1", CreationTimestamp: metav1.Now()},
		Spec:       corev1.NodeSpec{ProviderID: n.ProviderID},
	}
	if n.ControlPlane {
		node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	}
	node.Status.NodeInfo.KubeletVersion = n.Version
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return node
}
