// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// PortalControlPlaneTemplateSpec holds the template.
type PortalControlPlaneTemplateSpec struct {
	// template of the PortalControlPlanes. Its spec cannot be changed: create a new PortalControlPlaneTemplate and name it in the
	// ClusterClass.
	// +required
	Template PortalControlPlaneTemplateResource `json:"template"`
}

// PortalControlPlaneTemplateResource describes the PortalControlPlanes created from the template.
type PortalControlPlaneTemplateResource struct {
	// metadata is added to the PortalControlPlanes.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes what the portal clusters of the ClusterClass have in common.
	// +required
	Spec PortalControlPlaneTemplateResourceSpec `json:"spec"`
}

// PortalControlPlaneTemplateResourceSpec is the part of a PortalControlPlaneSpec that the Clusters of a ClusterClass share. It
// has no version and replicas, which come from spec.topology of each Cluster. It has no name, id and endpoint, because no two
// clusters share them.
type PortalControlPlaneTemplateResourceSpec struct {
	// description is free text that the portal shows for the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// deletionPolicy is what happens to the portal cluster when the PortalControlPlane is deleted: Delete deletes it, Retain
	// leaves it running. When omitted, a cluster that the PortalControlPlane created is deleted, and one that it took over stays.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// removalOrder is the order in which the portal removes workers when it is asked for fewer. When omitted, it is learned.
	// +optional
	RemovalOrder RemovalOrder `json:"removalOrder,omitempty"`

	// drainBeforeScaleDown says which nodes are drained before the portal is asked for fewer workers: those that it is expected to remove
	// (Expected, the default), or every node that it may remove (Possible).
	// +optional
	DrainBeforeScaleDown DrainScope `json:"drainBeforeScaleDown,omitempty"`

	// upgradePrecheck is what follows if the workload cluster has something that may stop an upgrade: Warn asks the portal all the same
	// and says what was found, Hold waits until nothing is found. When omitted, Warn applies.
	// +optional
	UpgradePrecheck UpgradePrecheck `json:"upgradePrecheck,omitempty"`

	// workerNodeSelector selects the Nodes that are workers. It is only needed if the portal marks its control nodes neither with
	// the label nor with the taint node-role.kubernetes.io/control-plane (or /master).
	// +optional
	WorkerNodeSelector *metav1.LabelSelector `json:"workerNodeSelector,omitempty"`

	// workers is what the portal cluster is created with if it is created before the Cluster has a MachineDeployment or a MachinePool. The
	// provider waits up to a minute for those of a topology. Afterwards workers has no effect.
	// +optional
	Workers *WorkerParameters `json:"workers,omitempty"`
}

// PortalControlPlaneTemplate is what a ClusterClass creates PortalControlPlanes from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalcontrolplanetemplates,shortName=pcpt,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Deletion Policy",type="string",JSONPath=`.spec.template.spec.deletionPolicy`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec PortalControlPlaneTemplateSpec `json:"spec"`
}

// PortalControlPlaneTemplateList is a list of PortalControlPlaneTemplates.
// +kubebuilder:object:root=true
type PortalControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalControlPlaneTemplate `json:"items"`
}
