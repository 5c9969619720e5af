// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// watcher sees every change of a life's Machines and Nodes in order, and checks the rules (hold_test.go).
type watcher struct {
	sums    sums
	judging atomic.Bool // false while the Cluster is being deleted: then no rule applies

	seen     sync.Mutex
	nodes    map[string]corev1.Node
	machines map[string]clusterv1.Machine
	drains   []moment // drains that began
	cordons  []moment // nodes that became unschedulable
	wrongs   []string // violations
	judged   int      // number of request log entries that judgeRequestLog has read
	harm
}

// moment is when something happened to a node.
type moment struct {
	node string
	at   time.Time
}

// source starts the watches of a RetryWatcher, which continues where the last watch ended.
type source struct {
	client  client.WithWatch
	list    client.ObjectList
	options []client.ListOption
}

// WatchWithContext implements cache.WatcherWithContext.
func (s source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	list, _ := s.list.DeepCopyObject().(client.ObjectList)
	return s.client.Watch(ctx, list, append(s.options, &client.ListOptions{Raw: &options})...)
}

// follow calls changed for each existing object and then for each change, until ctx is done. If the API server goes away,
// the watch continues at the version at which it was cut off.
func (s source) follow(ctx context.Context, changed func(o client.Object, gone bool)) error {
	ctx = logr.NewContext(ctx, logr.Discard()) // client-go would log each time that a server is away
	known := map[string]client.Object{}
	list := func() (*toolswatch.RetryWatcher, error) {
		if err := s.client.List(ctx, s.list, s.options...); err != nil {
			return nil, err
		}
		fresh := map[string]client.Object{}
		err := meta.EachListItem(s.list, func(item runtime.Object) error {
			o, _ := item.DeepCopyObject().(client.Object)
			fresh[o.GetName()] = o
			changed(o, false)
			return nil
		})
		for name, o := range known {
			if fresh[name] == nil {
				changed(o, true)
			}
		}
		known = fresh
		if err != nil {
			return nil, err
		}
		return toolswatch.NewRetryWatcherWithContext(ctx, s.list.GetResourceVersion(), s)
	}
	events, err := list()
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			for event := range events.ResultChan() {
				o, ok := event.Object.(client.Object)
				if !ok || event.Type == watch.Bookmark || event.Type == watch.Error {
					continue
				}
				known[o.GetName()] = o
				if event.Type == watch.Deleted {
					delete(known, o.GetName())
				}
				changed(o, event.Type == watch.Deleted)
			}
			// The watch was cut off for longer than the API server keeps changes, so list again.
			_ = within(ctx, patience, func() (err error) { events, err = list(); return err })
		}
	}()
	return nil
}

func (l *life) watchMachines(ctx context.Context) error {
	l.machines, l.nodes, l.harm = map[string]clusterv1.Machine{}, map[string]corev1.Node{}, newHarm()
	l.judging.Store(true)
	from := source{client: l.client, list: &clusterv1.MachineList{}, options: []client.ListOption{client.InNamespace(l.namespace)}}
	return from.follow(ctx, func(o client.Object, gone bool) {
		if m, ok := o.(*clusterv1.Machine); ok {
			l.machineChanged(m, gone)
		}
	})
}

// watchRecord notes the order of removal that the provider records.
func (l *life) watchRecord(ctx context.Context) error {
	from := source{client: l.client, list: &infrav1.PortalControlPlaneList{}, options: []client.ListOption{client.InNamespace(l.namespace)}}
	return from.follow(ctx, func(o client.Object, _ bool) {
		l.seen.Lock()
		defer l.seen.Unlock()
		l.orderNoted(orderIn(o.GetAnnotations()), time.Now())
	})
}

func (l *life) watchNodes(ctx context.Context) error {
	return source{client: l.workload, list: &corev1.NodeList{}}.follow(ctx, func(o client.Object, gone bool) {
		if n, ok := o.(*corev1.Node); ok {
			l.nodeChanged(n, gone)
		}
	})
}

// machineChanged notes changes of a Machine. A drain begins when our manager removes its pre-drain hook and leaves its
// pre-terminate hook.
func (l *life) machineChanged(m *clusterv1.Machine, gone bool) {
	l.seen.Lock()
	defer l.seen.Unlock()
	before, known := l.machines[m.Name]
	if gone {
		delete(l.machines, m.Name)
		l.logf("  Machine %s is gone", m.Name)
		return
	}
	l.machines[m.Name] = *m
	if m.DeletionTimestamp.IsZero() {
		l.holders[m.Status.NodeRef.Name] = m.Labels[clusterv1.MachineDeploymentNameLabel]
	}
	switch {
	case !known:
		l.logf("  Machine %s is new", m.Name)
	case before.DeletionTimestamp.IsZero() && !m.DeletionTimestamp.IsZero():
		l.logf("  Machine %s on %s is being deleted", m.Name, m.Status.NodeRef.Name)
	}
	if known && before.Status.NodeRef.Name != m.Status.NodeRef.Name {
		l.logf("  Machine %s: node %q → %q", m.Name, before.Status.NodeRef.Name, m.Status.NodeRef.Name)
	}
	hook := func(m *clusterv1.Machine) bool { return metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook) }
	if known && hook(&before) && !hook(m) && metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook) && m.Status.NodeRef.Name != "" {
		l.logf("  drain of %s begins with Machine %s", m.Status.NodeRef.Name, m.Name)
		l.drainBegins(m.Status.NodeRef.Name)
	}
}

func (l *life) nodeChanged(n *corev1.Node, gone bool) {
	l.seen.Lock()
	defer l.seen.Unlock()
	if !isWorker(n) {
		return
	}
	before, known := l.nodes[n.Name]
	if gone {
		delete(l.nodes, n.Name)
		l.logf("  Node %s is gone", n.Name)
		l.nodeGone(n)
		return
	}
	l.nodes[n.Name] = *n
	known = known && before.UID == n.UID
	l.births[n.Status.NodeInfo.MachineID] = birth{n.CreationTimestamp.Time, n.Annotations[infrav1.BatchAnnotation]}
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation) && !n.Spec.Unschedulable {
		l.wrong("Node %s is marked as drained, and it is schedulable", n.Name)
	}
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation) && !(known && metav1.HasAnnotation(before.ObjectMeta, infrav1.DrainStartedAnnotation)) {
		l.logf("  drain of %s begins without a Machine", n.Name)
		l.drainBegins(n.Name)
	}
	switch {
	case !known:
		l.logf("  Node %s is new", n.Name)
	case !before.Spec.Unschedulable && n.Spec.Unschedulable:
		l.logf("  Node %s is cordoned", n.Name)
		l.cordons = append(l.cordons, moment{n.Name, time.Now()})
	case before.Spec.Unschedulable && !n.Spec.Unschedulable:
		l.logf("  Node %s is uncordoned", n.Name)
	}
	if known && isReady(&before) != isReady(n) {
		l.logf("  Node %s: ready %t", n.Name, isReady(n))
	}
}

func isWorker(n *corev1.Node) bool {
	_, control := n.Labels["node-role.kubernetes.io/control-plane"]
	return !control
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wrong notes a violation. Callers hold seen.
func (l *life) wrong(format string, args ...any) {
	if l.judging.Load() {
		l.logf("WRONG: "+format, args...)
		l.wrongs = append(l.wrongs, fmt.Sprintf(format, args...))
	}
}

func (l *life) hasGoneWrong() bool {
	l.seen.Lock()
	defer l.seen.Unlock()
	return len(l.wrongs) > 0
}
