// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	core "sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxVolumes is how many attached volumes of a Node are kept. Kubernetes attaches at most a few hundred, and the API server may be a
	// tenant's.
	maxVolumes = 1000
	// volumesShown is how many volumes a condition names.
	volumesShown = 5
)

// Volumes returns which volumes are still attached to a Node without Pods, or "" if the drain waits for none. A machine that goes with its
// volume attached may take data along, and the next Pod gets the volume only minutes later. Like core, the drain ignores the volumes of Pods
// that stay, and all those of a Node whose kubelet is lost, because nothing can detach them.
func Volumes(ctx context.Context, management, workload client.Client, cluster *clusterv1.Cluster, node *corev1.Node, rules Rules) string {
	if noderefutil.IsNodeUnreachable(node) {
		return ""
	}
	attached, err := attachedTo(ctx, workload, node)
	if err != nil {
		return "list VolumeAttachments: " + err.Error()
	}
	if len(attached) == 0 {
		return ""
	}
	stay, err := claimsThatStay(ctx, management, workload, cluster, node, rules)
	if err != nil {
		return err.Error()
	}
	names, err := waitedFor(ctx, workload, attached, stay)
	if err != nil {
		return "list PersistentVolumes: " + err.Error()
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	shown := names[:min(len(names), volumesShown)]
	if more := len(names) - len(shown); more > 0 {
		shown = append(slices.Clone(shown), fmt.Sprintf("%d more", more))
	}
	return "volumes are still attached: " + strings.Join(shown, ", ")
}

// attachedTo returns the volumes as the Node names them, and the PersistentVolumes of VolumeAttachments. Kubernetes takes a volume from the
// Node before it detaches the volume, and removes the VolumeAttachment afterwards.
func attachedTo(ctx context.Context, workload client.Client, node *corev1.Node) (sets.Set[string], error) {
	attached := sets.Set[string]{}
	for _, volume := range node.Status.VolumesAttached {
		attached.Insert(string(volume.Name))
	}
	tooMany := false
	err := pages(ctx, workload, empty[storagev1.VolumeAttachmentList], func(page *storagev1.VolumeAttachmentList) {
		for _, a := range page.Items {
			if tooMany = tooMany || len(attached) > maxVolumes; tooMany {
				return
			}
			if a.Status.Attached && a.Spec.NodeName == node.Name {
				attached.Insert(ptr.Deref(a.Spec.Source.PersistentVolumeName, a.Name))
			}
		}
	}, client.Limit(500))
	if tooMany {
		return nil, fmt.Errorf("the API server returns more than %d volumes of the Node", maxVolumes)
	}
	return attached, client.IgnoreNotFound(err) // an API server without this kind attaches no volumes
}

// claimsThatStay returns the PersistentVolumeClaims of the Pods on the Node that a drain leaves alone.
func claimsThatStay(
	ctx context.Context, management, workload client.Client, cluster *clusterv1.Cluster, node *corev1.Node, rules Rules,
) (sets.Set[string], error) {
	helper := &core.Helper{Client: management, RemoteClient: &bounded{Client: workload, most: maxPages}}
	pods, err := helper.GetPodsForEviction(ctx, cluster, machineWith(cluster, rules), node.Name)
	if err != nil {
		return nil, err
	}
	stay := sets.Set[string]{}
	for _, pod := range pods.SkippedPods() {
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				stay.Insert(pod.Namespace + "/" + volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return stay, nil
}

// waitedFor names the attached volumes, except those of the claims that stay.
func waitedFor(ctx context.Context, workload client.Client, attached, stay sets.Set[string]) (names []string, err error) {
	unknown := attached.Clone()
	err = pages(ctx, workload, empty[corev1.PersistentVolumeList], func(page *corev1.PersistentVolumeList) {
		for _, volume := range page.Items {
			keys := []string{volume.Name}
			if csi := volume.Spec.CSI; csi != nil {
				keys = append(keys, fmt.Sprintf("kubernetes.io/csi/%s^%s", csi.Driver, csi.VolumeHandle))
			}
			if !attached.HasAny(keys...) {
				continue
			}
			unknown.Delete(keys...)
			claim := volume.Spec.ClaimRef
			switch {
			case claim == nil || claim.Kind != "PersistentVolumeClaim":
				names = append(names, "PersistentVolume "+volume.Name)
			case !stay.Has(claim.Namespace + "/" + claim.Name):
				names = append(names, "PersistentVolumeClaim "+claim.Namespace+"/"+claim.Name)
			}
		}
	}, client.Limit(500))
	return append(names, sets.List(unknown)...), err
}

// machineWith is a Machine whose MachineDrainRules are those of the Node's last Machine.
func machineWith(cluster *clusterv1.Cluster, rules Rules) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Labels: rules.Labels}}
}
