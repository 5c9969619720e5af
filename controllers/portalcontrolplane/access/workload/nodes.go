// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodes are the Nodes that a reflector has seen, trimmed.
type nodes struct {
	trim    func(*corev1.Node) *corev1.Node
	changed func() // called when a Node has come, gone or changed

	mu     sync.Mutex
	byName map[string]*corev1.Node
	listed chan struct{} // closed when the first list has arrived
}

var _ cache.ReflectorStore = &nodes{}

func newNodes(trim func(*corev1.Node) *corev1.Node, changed func()) *nodes {
	return &nodes{trim: trim, changed: changed, listed: make(chan struct{})}
}

// List lists the Nodes. It waits for the first list until ctx ends.
func (n *nodes) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	into, ok := list.(*corev1.NodeList)
	if !ok {
		return fmt.Errorf("only Nodes are kept, not %T", list)
	}
	select {
	case <-n.listed:
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range n.byName {
		into.Items = append(into.Items, *node.DeepCopy())
	}
	return nil
}

func (n *nodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.byName)
}

// Add implements cache.ReflectorStore.
func (n *nodes) Add(obj any) error {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fmt.Errorf("%T is not a Node", obj)
	}
	after := n.trim(node)
	n.mu.Lock()
	before := n.byName[node.Name]
	n.byName[node.Name] = after
	n.mu.Unlock()
	if before == nil || differ(before, after) {
		n.changed()
	}
	return nil
}

// differ reports whether a part of a trimmed Node differs that more than a heartbeat changes.
func differ(before, after *corev1.Node) bool {
	same := *after
	same.ResourceVersion = before.ResourceVersion
	return !equality.Semantic.DeepEqual(before, &same)
}

// Update implements cache.ReflectorStore.
func (n *nodes) Update(obj any) error { return n.Add(obj) }

// Delete implements cache.ReflectorStore.
func (n *nodes) Delete(obj any) error {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return fmt.Errorf("%T is not a Node", obj)
	}
	n.mu.Lock()
	delete(n.byName, node.Name)
	n.mu.Unlock()
	n.changed()
	return nil
}

// Replace implements cache.ReflectorStore.
func (n *nodes) Replace(list []any, _ string) error {
	all := make(map[string]*corev1.Node, len(list))
	for _, obj := range list {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return fmt.Errorf("%T is not a Node", obj)
		}
		all[node.Name] = n.trim(node)
	}
	n.mu.Lock()
	if n.byName == nil {
		close(n.listed)
	}
	n.byName = all
	n.mu.Unlock()
	n.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (*nodes) Resync() error { return nil }
