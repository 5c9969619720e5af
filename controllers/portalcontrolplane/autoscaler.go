// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
)

// scaleDownDisabled keeps the cluster autoscaler from removing a Node.
const scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

// setByUser reports whether the Node has the autoscaler's annotation from someone else. It is left alone.
func setByUser(n *corev1.Node) bool {
	return metav1.HasAnnotation(n.ObjectMeta, scaleDownDisabled) && !metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation)
}

func freeze(n *corev1.Node) {
	if !setByUser(n) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, scaleDownDisabled, "true")
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation, "")
	}
}

// unfreeze removes what freeze has set. If the user has changed the value since, it is theirs.
func unfreeze(n *corev1.Node) {
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation) {
		if n.Annotations[scaleDownDisabled] == "true" {
			delete(n.Annotations, scaleDownDisabled)
		}
		delete(n.Annotations, infrav1.ScaleDownDisabledAnnotation)
	}
}

// autoscaled reports whether the cluster autoscaler may scale the MachineDeployment.
func autoscaled(md *clusterv1.MachineDeployment) bool {
	return metav1.HasAnnotation(md.ObjectMeta, clusterv1.AutoscalerMinSizeAnnotation) && metav1.HasAnnotation(md.ObjectMeta, clusterv1.AutoscalerMaxSizeAnnotation)
}

// pinsAge is how long a look at the Pods of an autoscaled cluster is used.
const pinsAge = 5 * time.Second

// pins remembers, for each autoscaled cluster, which Nodes run Pods that must not be evicted. The zero value is ready to use.
type pins struct {
	mu   sync.Mutex
	seen map[string]pinned
}

type pinned struct {
	nodes map[string]bool
	at    time.Time
}

// pinnedNodes returns the names of the Nodes of an autoscaled cluster that run Pods which must not be evicted.
func (r *Reconciler) pinnedNodes(ctx context.Context, s *scope) (map[string]bool, error) {
	if !s.desired.autoscaled {
		r.pins.set(s.flow(), nil)
		return nil, nil
	}
	if known, fresh := r.pins.get(s.flow()); fresh {
		return known, nil
	}
	workload, err := r.ClusterCache.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return nil, err
	}
	nodes, err := nodesWithPinnedPods(ctx, workload)
	if err != nil {
		return nil, err
	}
	r.pins.set(s.flow(), nodes)
	return nodes, nil
}

// nodesWithPinnedPods lists the metadata of all Pods, and reads those that must not be evicted: few, as a rule.
func nodesWithPinnedPods(ctx context.Context, workload client.Client) (map[string]bool, error) {
	nodes := map[string]bool{}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for {
		if err := workload.List(ctx, all, client.Limit(500), client.Continue(all.Continue)); err != nil {
			return nil, err
		}
		for _, pod := range all.Items {
			if pod.Annotations[drain.SafeToEvict] != "false" {
				continue
			}
			full := &corev1.Pod{}
			if err := workload.Get(ctx, client.ObjectKeyFromObject(&pod), full); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			if drain.Pinned(full) {
				nodes[full.Spec.NodeName] = true
			}
		}
		if all.Continue == "" {
			return nodes, nil
		}
	}
}

func (p *pins) get(key string) (map[string]bool, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, found := p.seen[key]
	return seen.nodes, found && time.Since(seen.at) < pinsAge
}

func (p *pins) set(key string, nodes map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nodes == nil {
		delete(p.seen, key)
		return
	}
	if p.seen == nil {
		p.seen = map[string]pinned{}
	}
	p.seen[key] = pinned{nodes: nodes, at: time.Now()}
}
