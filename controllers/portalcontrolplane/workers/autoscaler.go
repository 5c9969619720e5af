// SPDX-License-Identifier: Apache-2.0

package workers

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
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

// mayLose reports whether the cluster autoscaler may remove a worker of the MachineDeployment or MachinePool now. It keeps the minimum.
func mayLose(obj metav1.Object, replicas *int32) bool {
	least, err := strconv.Atoi(obj.GetAnnotations()[clusterv1.AutoscalerMinSizeAnnotation])
	return autoscaled(obj) && (err != nil || int(ptr.Deref(replicas, 0)) > least)
}

// shrinks reports whether the cluster autoscaler can remove nodes of the pool.
func (p *pool) shrinks() bool {
	return p.machinePool.Annotations[infrav1.AutoscalerRemovesNodesAnnotation] == "true" && autoscaled(&p.machinePool)
}

// pinsAge is how long the list of the Pods of an autoscaled cluster is used.
const pinsAge = 5 * time.Second

// pins are the Nodes of an autoscaled cluster that run Pods which must not be evicted.
type pins struct {
	nodes map[string]bool
	at    time.Time // when the Pods were listed, or zero
	// problem is why the Pods cannot be listed, or "". It is the error of the first attempt, so that the condition does not change with every
	// attempt. Until the Pods are listed again, all Nodes count as pinned.
	problem string
}

// on returns those of the Nodes that are pinned.
func (p pins) on(workers []corev1.Node) map[string]bool {
	if p.problem == "" {
		return p.nodes
	}
	all := map[string]bool{}
	for _, n := range workers {
		all[n.Name] = true
	}
	return all
}

// lookAtPods finds out which Nodes of an autoscaled cluster are pinned. It lists the Pods only while the autoscaler could remove a node,
// because no other read of a workload cluster costs as much. Until then, the last list is used. A list that fails holds up nothing but the
// autoscaler: a scale, a drain or a bind does not depend on these Pods.
func (m *Memory) lookAtPods(ctx context.Context, workload client.Client, d Desired) pins {
	if !d.autoscaled {
		m.pins = pins{}
		return m.pins
	}
	if m.pins.at.IsZero() || (d.mayLose || m.pins.problem != "") && time.Since(m.pins.at) >= pinsAge {
		nodes, err := drain.PinnedNodes(ctx, workload)
		switch {
		case err == nil:
			m.pins = pins{nodes: nodes}
		case m.pins.problem == "":
			m.pins.problem = err.Error()
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Pods of an autoscaled cluster. The cluster autoscaler may remove no node until this works")
		}
		m.pins.at = time.Now()
	}
	return m.pins
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinetemplates/status,verbs=patch

// recordCapacity copies the capacity of a Node into the templates of the MachineDeployments. All workers of a portal cluster are
// alike, so any Ready Node will do. The cluster autoscaler reads it when no Node is left to look at.
func (k Keeper) recordCapacity(ctx context.Context, cluster *clusterv1.Cluster, d *decision) error {
	workers := d.nodes.Workers
	i := slices.IndexFunc(workers, func(n corev1.Node) bool { return util.IsNodeReady(&n) && len(n.Status.Capacity) > 0 })
	if i < 0 || len(d.plan.Mismatched) > 0 {
		return nil
	}
	info := workers[i].Status.NodeInfo
	want := infrav1.PortalMachineTemplateStatus{
		Capacity: workers[i].Status.Capacity,
		NodeInfo: infrav1.PortalNodeInfo{Architecture: info.Architecture, OperatingSystem: info.OperatingSystem},
	}
	for _, name := range d.desired.Templates {
		template := &infrav1.PortalMachineTemplate{}
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, template)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		before := template.Status
		template.Status = want
		if err := outcome.PatchStatus(ctx, k.Client, template, &template.Status, before); err != nil {
			return fmt.Errorf("PortalMachineTemplate %s: %w", name, err)
		}
	}
	return nil
}
