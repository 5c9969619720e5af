// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// scaleDownDisabled keeps the cluster autoscaler from removing a Node.
const scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

// setByUser reports whether someone else set the autoscaler's annotation on the Node. It is then left alone.
func setByUser(n *corev1.Node) bool {
	return metav1.HasAnnotation(n.ObjectMeta, scaleDownDisabled) && !metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation)
}

func disableScaleDown(n *corev1.Node) {
	if !setByUser(n) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, scaleDownDisabled, "true")
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation, "")
	}
}

// enableScaleDown removes the annotation that disableScaleDown has set. If the user has changed its value since, it stays.
func enableScaleDown(n *corev1.Node) {
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation) {
		if n.Annotations[scaleDownDisabled] == "true" {
			delete(n.Annotations, scaleDownDisabled)
		}
		delete(n.Annotations, infrav1.ScaleDownDisabledAnnotation)
	}
}

// autoscaled reports whether the cluster autoscaler may scale the MachineDeployment or MachinePool.
func autoscaled(obj metav1.Object) bool {
	notes := obj.GetAnnotations()
	_, least := notes[clusterv1.AutoscalerMinSizeAnnotation]
	_, most := notes[clusterv1.AutoscalerMaxSizeAnnotation]
	return least && most
}

// mayLose reports whether the cluster autoscaler may remove a worker of the MachineDeployment now. It keeps the minimum.
func mayLose(md *clusterv1.MachineDeployment) bool {
	least, err := strconv.Atoi(md.Annotations[clusterv1.AutoscalerMinSizeAnnotation])
	return autoscaled(md) && (err != nil || int(ptr.Deref(md.Spec.Replicas, 0)) > least)
}

const (
	// pinsAge is how long the list of the Pods of an autoscaled cluster is used.
	pinsAge = 5 * time.Second
	// podsTimeout bounds the list. The pages of a hostile API server may not end.
	podsTimeout = 10 * time.Second
)

// pinnedNodes returns the names of the Nodes of an autoscaled cluster that run Pods which must not be evicted. It lists the Pods
// only while the autoscaler could remove a node, because no other read of a workload cluster costs as much. Until then, the last
// list is used.
func (r *Reconciler) pinnedNodes(ctx context.Context, s *scope) (map[string]bool, error) {
	seen := r.memory(s)
	if !s.desired.autoscaled {
		seen.pinned = nil
		return nil, nil
	}
	if seen.pinned == nil || s.desired.mayLose && time.Since(seen.pinnedAt) >= pinsAge {
		nodes, err := nodesWithPinnedPods(ctx, s.way.Workload.Client())
		if err != nil {
			return nil, err
		}
		seen.pinned, seen.pinnedAt = nodes, time.Now()
	}
	return seen.pinned, nil
}

// nodesWithPinnedPods lists the metadata of all Pods, and reads those that must not be evicted, which are usually few.
func nodesWithPinnedPods(ctx context.Context, workload client.Client) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
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

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinetemplates/status,verbs=patch

// recordCapacity copies the capacity of a Node into the templates of the MachineDeployments. All workers of a portal cluster are
// alike, so any Ready Node will do. The cluster autoscaler reads it when no Node is left to look at.
func (r *Reconciler) recordCapacity(ctx context.Context, s *scope) error {
	i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return util.IsNodeReady(&n) && len(n.Status.Capacity) > 0 })
	if i < 0 || len(s.plan.Mismatched) > 0 {
		return nil
	}
	info := s.nodes[i].Status.NodeInfo
	want := infrav1.PortalMachineTemplateStatus{
		Capacity: s.nodes[i].Status.Capacity,
		NodeInfo: infrav1.PortalNodeInfo{Architecture: info.Architecture, OperatingSystem: info.OperatingSystem},
	}
	for _, name := range s.desired.templates {
		template := &infrav1.PortalMachineTemplate{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, template)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		before := template.Status
		template.Status = want
		if err := outcome.PatchStatus(ctx, r.Client, template, &template.Status, before); err != nil {
			return fmt.Errorf("PortalMachineTemplate %s: %w", name, err)
		}
	}
	return nil
}
