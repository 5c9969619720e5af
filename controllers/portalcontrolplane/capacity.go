// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinetemplates/status,verbs=get;update;patch

// noteCapacity tells, on the templates of the MachineDeployments, what their nodes report: all workers of a portal cluster
// are alike, so any node that is Ready will do. The cluster autoscaler reads it when there is no node left to look at.
func (r *Reconciler) noteCapacity(ctx context.Context, s *scope) error {
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
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, template); err != nil {
			return client.IgnoreNotFound(err)
		}
		if equality.Semantic.DeepEqual(template.Status, want) {
			continue
		}
		before := template.DeepCopy()
		template.Status = want
		if err := r.Client.Status().Patch(ctx, template, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write the status of PortalMachineTemplate %s: %w", name, err)
		}
	}
	return nil
}
