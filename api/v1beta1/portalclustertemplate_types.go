// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// PortalClusterTemplateSpec holds the template.
type PortalClusterTemplateSpec struct {
	// template of the PortalClusters. Its spec cannot be changed: create a new PortalClusterTemplate and name it in the
	// ClusterClass.
	// +required
	Template PortalClusterTemplateResource `json:"template"`
}

// PortalClusterTemplateResource describes the PortalClusters created from the template.
type PortalClusterTemplateResource struct {
	// metadata is added to the PortalClusters.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes what the Clusters of the ClusterClass have in common.
	// +required
	Spec PortalClusterTemplateResourceSpec `json:"spec"`
}

// PortalClusterTemplateResourceSpec is the part of a PortalClusterSpec that the Clusters of a ClusterClass share. All fields are
// optional. The patches of the ClusterClass must set the ones that are omitted, otherwise the PortalCluster is refused.
type PortalClusterTemplateResourceSpec struct {
	// identityRef names the identity Secret, in the namespace of each Cluster, or a PortalClusterIdentity.
	// +optional
	IdentityRef PortalIdentityReference `json:"identityRef,omitempty,omitzero"`

	// zoneID is the portal's identifier of the zone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ZoneID string `json:"zoneID,omitempty"`

	// vpc is the virtual private cloud that holds the networks, by id or by name.
	// +optional
	VPC *PortalVPC `json:"vpc,omitempty"`

	// network receives the nodes. It names an existing network by id, or a CIDR from which one is created for each Cluster. When
	// omitted, the portal creates an isolated network for each Cluster.
	// +optional
	Network *PortalNetwork `json:"network,omitempty"`
}

// PortalClusterTemplate is what a ClusterClass creates PortalClusters from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalclustertemplates,shortName=pclt,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=`.spec.template.spec.zoneID`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec PortalClusterTemplateSpec `json:"spec"`
}

// PortalClusterTemplateList is a list of PortalClusterTemplates.
// +kubebuilder:object:root=true
type PortalClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalClusterTemplate `json:"items"`
}
