// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/nodeapi"
)

// server is the API server of one cluster. It serves Nodes, and empty lists of everything else.
type server struct {
	address string
	http    *http.Server

	mu      sync.Mutex
	version string // of Kubernetes
	nodes   []*corev1.Node
	events  []event       // all since the start. The resourceVersion is their number
	changed chan struct{} // closed at the next event
}

// event is one line of a watch.
type event struct {
	Type   string       `json:"type"`
	Object *corev1.Node `json:"object"`
}

func newServer(address string) *server {
	return &server{address: address, changed: make(chan struct{})}
}

// apply changes the Nodes to those of the portal's workload.
func (s *server) apply(want emulator.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = want.Version
	for _, have := range slices.Clone(s.nodes) {
		if !slices.ContainsFunc(want.Nodes, func(n emulator.Node) bool { return n.Name == have.Name && "uid-"+n.ID == string(have.UID) }) {
			s.set("DELETED", have)
		}
	}
	for _, n := range want.Nodes {
		i := s.index(n.Name)
		switch {
		case i < 0:
			s.set("ADDED", nodeOf(n))
		case s.nodes[i].Status.NodeInfo.KubeletVersion != n.Version:
			updated := s.nodes[i].DeepCopy()
			updated.Status.NodeInfo.KubeletVersion = n.Version
			s.set("MODIFIED", updated)
		}
	}
}

func (s *server) index(name string) int {
	return slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == name })
}

// set stores a Node and notifies the watches. Stored Nodes are never modified. Callers must hold mu.
func (s *server) set(what string, node *corev1.Node) {
	node = node.DeepCopy()
	node.ResourceVersion = strconv.Itoa(len(s.events) + 1)
	i := s.index(node.Name)
	switch {
	case what == "DELETED":
		s.nodes = slices.Delete(s.nodes, i, i+1)
	case i < 0:
		s.nodes = append(s.nodes, node)
	default:
		s.nodes[i] = node
	}
	s.events = append(s.events, event{what, node})
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, found := nodeapi.Discovery[r.URL.Path]
	name, isNode := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/")
	switch {
	case found:
		answer(w, body)
	case r.URL.Path == "/version":
		s.serveVersion(w)
	case isNode && r.Method == http.MethodPatch:
		s.patch(w, r, name)
	case isNode:
		s.get(w, name)
	case r.URL.Path != "/api/v1/nodes":
		answer(w, `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`)
	case r.URL.Query().Has("sendInitialEvents"):
		http.Error(w, "not served", http.StatusBadRequest) // clients then list instead
	case r.URL.Query().Has("watch"):
		s.watch(w, r)
	default:
		s.list(w)
	}
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

func answerJSON(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func (s *server) serveVersion(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, fmt.Sprintf(`{"major":"1","minor":"%s","gitVersion":"%s"}`, strings.Split(s.version+"..", ".")[1], s.version))
}

func (s *server) get(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(name)
	if i < 0 {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	answerJSON(w, s.nodes[i])
}

func (s *server) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := corev1.NodeList{Items: []corev1.Node{}}
	list.Kind, list.APIVersion, list.ResourceVersion = "NodeList", "v1", strconv.Itoa(len(s.events))
	for _, n := range s.nodes {
		list.Items = append(list.Items, *n)
	}
	answerJSON(w, list)
}

// watch sends all events after the client's resourceVersion.
func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	sent, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	if err != nil {
		seconds = 3600
	}
	end := time.NewTimer(time.Duration(seconds) * time.Second)
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	for {
		s.mu.Lock()
		next, changed := s.events[min(sent, len(s.events)):], s.changed
		s.mu.Unlock()
		for _, e := range next {
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
		}
		sent += len(next)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) patch(w http.ResponseWriter, r *http.Request, name string) {
	change, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(strings.TrimSuffix(name, "/status"))
	if i < 0 {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	patched, err := patch(s.nodes[i], types.PatchType(r.Header.Get("Content-Type")), change)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	s.set("MODIFIED", patched)
	answerJSON(w, s.nodes[i])
}

// patch returns the Node with the change applied. It ignores a resourceVersion in the change.
func patch(node *corev1.Node, kind types.PatchType, change []byte) (*corev1.Node, error) {
	before, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch kind {
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, change, corev1.Node{})
	case types.MergePatchType:
		after, err = mergePatch(before, change)
	default:
		err = fmt.Errorf("patches of %s are not served", kind)
	}
	if err != nil {
		return nil, err
	}
	patched := &corev1.Node{}
	return patched, json.Unmarshal(after, patched)
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(before, change []byte) ([]byte, error) {
	var target, patch map[string]any
	if err := errors.Join(json.Unmarshal(before, &target), json.Unmarshal(change, &patch)); err != nil {
		return nil, err
	}
	merge(target, patch)
	return json.Marshal(target)
}

func merge(target, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, key)
		case isMap:
			below, _ := target[key].(map[string]any)
			if below == nil {
				below = map[string]any{}
			}
			merge(below, inner)
			target[key] = below
		default:
			target[key] = value
		}
	}
}
