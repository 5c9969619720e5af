// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// byCore has core write the annotation, from a Cluster's topology or from a template.
func (t *tenant) byCore(topology bool) string {
	t.Helper()
	id, job := t.portalCluster("theirs")
	annotations := map[string]string{infrav1.OperationAnnotation: creation(job)}
	meta := metav1.ObjectMeta{Namespace: t.namespace, Name: fmt.Sprintf("class-%d", t.number)}
	c := t.own(nil)
	infrastructure := &infrav1.PortalClusterTemplate{ObjectMeta: meta}
	infrastructure.Spec.Template.Spec = infrav1.PortalClusterTemplateResourceSpec{
		IdentityRef: c.portalCluster.Spec.IdentityRef, ZoneID: c.portalCluster.Spec.ZoneID, VPC: &c.portalCluster.Spec.VPC,
	}
	control := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	control.Spec.Template.Spec.Workers = c.controlPlane.Spec.Workers
	c.cluster.Spec = clusterv1.ClusterSpec{Topology: clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: meta.Name}, Version: c.controlPlane.Spec.Version,
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
	}}
	if topology {
		c.cluster.Spec.Topology.ControlPlane.Metadata.Annotations = annotations
	} else {
		control.Spec.Template.ObjectMeta.Annotations = annotations
	}
	ref := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: meta.Name}
	}
	class := &clusterv1.ClusterClass{ObjectMeta: meta, Spec: clusterv1.ClusterClassSpec{
		Infrastructure: clusterv1.InfrastructureClass{TemplateRef: ref("PortalClusterTemplate")},
		ControlPlane:   clusterv1.ControlPlaneClass{TemplateRef: ref("PortalControlPlaneTemplate")},
	}}
	if !t.create(infrastructure, control, class) {
		return ""
	}
	t.await("core has read the ClusterClass", func() bool { return fetched(t, class).Status.ObservedGeneration > 0 })
	if !t.create(c.cluster) {
		return ""
	}
	return t.received(c, id)
}
