// SPDX-License-Identifier: Apache-2.0

// Package drain evicts the Pods of a Node that core does not drain, and finds out which of its volumes are still attached. Core drains the Nodes of
// Machines, so the provider drains the others, with core's own helper, and under the rules of the Machine that last held the Node. Before an
// upgrade, at which the portal may drain all Nodes, Obstacles names what may stop it.
package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/noderefutil"
	core "sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// ByCore reports whether core drains the Node of the Machine, or has drained it: the provider lets it go past the hook before the drain, not yet
// past the one after it.
func ByCore(m *clusterv1.Machine) bool {
	return !m.DeletionTimestamp.IsZero() && !metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook) && metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook)
}

// Begun reports whether the provider is draining the Node.
func Begun(n *corev1.Node) bool {
	return metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation)
}

// Ended reports whether the Node was drained, by core or by the provider, and waits for its removal.
func Ended(n *corev1.Node) bool { return metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation) }

// Marked reports whether the Node has a mark of the provider: it is being drained, or was, and is not used again.
func Marked(n *corev1.Node) bool { return Begun(n) || Ended(n) }

// Rules are what a Machine says about the drain of its Node. They are noted on the Node when the Machine gives it up, because
// the Machine and its MachineSet may be gone when the Node is drained.
type Rules struct {
	// Labels of the Machine, by which MachineDrainRules select it.
	Labels map[string]string `json:"labels,omitempty"`
	// TimeoutSeconds is how long the drain may take. 0 means forever.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// Excluded reports that the Machine has the annotation machine.cluster.x-k8s.io/exclude-node-draining.
	Excluded bool `json:"excluded,omitempty"`
	// VolumeTimeoutSeconds is how long the drain waits, after the Pods are gone, until volumes are detached. 0 means forever.
	VolumeTimeoutSeconds int32 `json:"volumeTimeoutSeconds,omitempty"`
	// VolumesExcluded reports that the Machine has the annotation machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach.
	VolumesExcluded bool `json:"volumesExcluded,omitempty"`
}

// RulesOf returns the rules of a Machine, or of the template that Machines are made from.
func RulesOf(labels, annotations map[string]string, deletion clusterv1.MachineDeletionSpec) Rules {
	_, excluded := annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	_, volumesExcluded := annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation]
	return Rules{
		Labels: labels, TimeoutSeconds: ptr.Deref(deletion.NodeDrainTimeoutSeconds, 0), Excluded: excluded,
		VolumeTimeoutSeconds: ptr.Deref(deletion.NodeVolumeDetachTimeoutSeconds, 0), VolumesExcluded: volumesExcluded,
	}
}

// String encodes the rules for the Node's annotation.
func (r Rules) String() string {
	text, _ := json.Marshal(r) // it always has an encoding
	return string(text)
}

// Parse decodes rules. A note that cannot be read counts as none.
func Parse(note string) (r Rules, found bool) {
	err := json.Unmarshal([]byte(note), &r)
	return r, err == nil
}

// Expired reports whether the drain has taken as long as it may.
func (r Rules) Expired(started time.Time) bool { return expired(started, r.TimeoutSeconds) }

// VolumesExpired reports whether the drain has waited for volumes as long as it may. started is zero if it has not begun to wait.
func (r Rules) VolumesExpired(started time.Time) bool {
	return !started.IsZero() && expired(started, r.VolumeTimeoutSeconds)
}

func expired(started time.Time, seconds int32) bool {
	return seconds > 0 && time.Since(started) >= time.Duration(seconds)*time.Second
}

// Step evicts those Pods of the Node that are next, as core would, and returns what the drain waits for, or "" if no Pod is left. A
// Pod whose eviction fails is named with the reason, and keeps neither other Pods nor other Nodes from being drained.
func Step(ctx context.Context, management, workload client.Client, cluster *clusterv1.Cluster, node *corev1.Node, rules Rules) string {
	helper := &core.Helper{Client: management, RemoteClient: &bounded{Client: workload, most: maxPages}, GracePeriodSeconds: -1}
	if noderefutil.IsNodeUnreachable(node) { // Pods that were deleted never end there, so they do not count. Core does the same
		helper.GracePeriodSeconds, helper.SkipWaitForDeleteTimeoutSeconds = 1, 1
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).V(4)) // the helper logs each step
	pods, err := helper.GetPodsForEviction(ctx, cluster, machineWith(cluster, rules), node.Name)
	switch {
	case err != nil:
		return err.Error()
	case len(pods.Pods()) == 0:
		return ""
	}
	return waits(helper.EvictPods(ctx, pods))
}

// maxPages is how many pages of 100 Pods of a Node are read. A kubelet runs 110 Pods by default.
const maxPages = 10

// bounded ends a list that has too many pages. The helper keeps all of them, and the API server may be a tenant's.
type bounded struct {
	client.Client
	pages, most int
}

// List implements client.Client.
func (b *bounded) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if b.pages++; b.pages > b.most {
		return fmt.Errorf("the API server returns more than %d pages", b.most)
	}
	return b.Client.List(ctx, list, opts...)
}

// waits describes what is left, in core's words and without the time, which a condition does not need.
func waits(result core.EvictionResult) string {
	_, text, _ := strings.Cut(result.ConditionMessage(metav1.Time{}), ":\n")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", "; "), "* ", "")
}

// Blocked returns the parts of a drain's message, core's or the provider's, that name Pods which cannot be evicted.
func Blocked(message string) (blocked []string) {
	for _, line := range strings.Split(strings.ReplaceAll(message, "\n* ", "; "), "; ") {
		if strings.Contains(line, ": cannot evict pod") || strings.Contains(line, ": failed to evict Pod") {
			blocked = append(blocked, line)
		}
	}
	return blocked
}

// BlockedByCore returns which Pods block the drain of a Machine, as core reports it.
func BlockedByCore(m *clusterv1.Machine) string {
	return strings.Join(Blocked(conditions.GetMessage(m, clusterv1.MachineDeletingCondition)), "; ")
}
