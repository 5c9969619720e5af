// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortalBootstrapConfigSpec has no fields: the portal bootstraps its nodes.
type PortalBootstrapConfigSpec struct{}

// PortalBootstrapConfigStatus names the Secret with the bootstrap data, which is empty.
// +kubebuilder:validation:MinProperties=1
type PortalBootstrapConfigStatus struct {
	// conditions has Ready, which reports whether the Secret exists, or what it waits for.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is part of the Cluster API contract and orchestrates the first provisioning.
	// +optional
	Initialization PortalBootstrapConfigInitialization `json:"initialization,omitempty,omitzero"`

	// dataSecretName is the name of the Secret with the bootstrap data, which is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`
}

// PortalBootstrapConfigInitialization is part of the Cluster API contract for BootstrapConfigs.
// +kubebuilder:validation:MinProperties=1
type PortalBootstrapConfigInitialization struct {
	// dataSecretCreated is true when the Secret with the (empty) bootstrap data exists.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// PortalBootstrapConfig represents the bootstrap of a worker, which the portal does by itself. A ClusterClass cannot be written
// without a bootstrap kind. Outside of ClusterClasses, leave it out and set bootstrap.dataSecretName to "".
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalbootstrapconfigs,shortName=pbc,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Data Secret",type="string",JSONPath=`.status.dataSecretName`,priority=1
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.reason=="Paused")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalBootstrapConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec has no fields: the portal bootstraps its nodes.
	// +optional
	Spec PortalBootstrapConfigSpec `json:"spec,omitempty,omitzero"`

	// status names the Secret with the bootstrap data, which is empty.
	// +optional
	Status PortalBootstrapConfigStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (c *PortalBootstrapConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions of this object.
func (c *PortalBootstrapConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// PortalBootstrapConfigList is a list of PortalBootstrapConfigs.
// +kubebuilder:object:root=true
type PortalBootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalBootstrapConfig `json:"items"`
}
