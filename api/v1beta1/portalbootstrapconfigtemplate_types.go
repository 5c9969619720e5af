// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// PortalBootstrapConfigTemplateSpec holds the template.
type PortalBootstrapConfigTemplateSpec struct {
	// template of the PortalBootstrapConfigs.
	// +required
	Template PortalBootstrapConfigTemplateResource `json:"template"`
}

// PortalBootstrapConfigTemplateResource describes the PortalBootstrapConfigs created from the template.
type PortalBootstrapConfigTemplateResource struct {
	// metadata is added to the PortalBootstrapConfigs.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec has no fields: the portal bootstraps its nodes.
	// +required
	Spec PortalBootstrapConfigSpec `json:"spec"`
}

// PortalBootstrapConfigTemplate is what a ClusterClass creates PortalBootstrapConfigs from. It exists because every worker class
// of a ClusterClass needs a bootstrap template.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalbootstrapconfigtemplates,shortName=pbct,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalBootstrapConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec PortalBootstrapConfigTemplateSpec `json:"spec"`
}

// PortalBootstrapConfigTemplateList is a list of PortalBootstrapConfigTemplates.
// +kubebuilder:object:root=true
type PortalBootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalBootstrapConfigTemplate `json:"items"`
}
