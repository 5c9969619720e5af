// SPDX-License-Identifier: Apache-2.0

package suite

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Objects are the objects of a Cluster with two workers, without the identity Secret.
type Objects struct {
	Cluster       *clusterv1.Cluster
	PortalCluster *infrav1.PortalCluster
	ControlPlane  *infrav1.PortalControlPlane
	Bootstrap     *infrav1.PortalBootstrapConfigTemplate
	Template      *infrav1.PortalMachineTemplate
	Deployment    *clusterv1.MachineDeployment
}

// NewObjects returns objects that all have the same name. Identity is the name of the identity Secret.
func NewObjects(meta metav1.ObjectMeta, identity string) Objects {
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: meta.Name}
	}
	template := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	return Objects{
		Cluster: &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
			InfrastructureRef: ref("PortalCluster"), ControlPlaneRef: ref("PortalControlPlane"),
		}},
		PortalCluster: &infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
			IdentityRef: infrav1.PortalIdentityReference{Name: identity}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
		}},
		ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: meta, Spec: infrav1.PortalControlPlaneSpec{
			Version: "v1.35.6", Replicas: ptr.To[int32](1),
		}},
		Bootstrap: &infrav1.PortalBootstrapConfigTemplate{ObjectMeta: meta},
		Template:  template,
		Deployment: &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: meta.Name, Replicas: ptr.To[int32](2),
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: meta.Name, Version: "v1.35.6", InfrastructureRef: ref("PortalMachineTemplate"),
				Bootstrap: clusterv1.Bootstrap{ConfigRef: ref("PortalBootstrapConfigTemplate")},
			}},
		}},
	}
}

// NewPool returns a MachinePool of a Cluster, and the PortalMachinePool of the same name that it names.
func NewPool(
	meta metav1.ObjectMeta, cluster, version string, replicas int32, workers infrav1.WorkerParameters,
) (*clusterv1.MachinePool, *infrav1.PortalMachinePool) {
	pool := &infrav1.PortalMachinePool{ObjectMeta: meta, Spec: infrav1.PortalMachinePoolSpec{WorkerParameters: workers}}
	return &clusterv1.MachinePool{ObjectMeta: meta, Spec: clusterv1.MachinePoolSpec{
		ClusterName: cluster,
		Replicas:    &replicas,
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: cluster, Version: version,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachinePool", Name: meta.Name},
		}},
	}}, pool
}
