// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// PortalMachinePoolTemplateSpec holds the template.
type PortalMachinePoolTemplateSpec struct {
	// template of the PortalMachinePools.
	// +required
	Template PortalMachinePoolTemplateResource `json:"template,omitzero"`
}

// PortalMachinePoolTemplateResource describes the PortalMachinePools created from the template.
type PortalMachinePoolTemplateResource struct {
	// metadata is added to the PortalMachinePools.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes what the portal creates the workers from.
	// +required
	Spec WorkerParameters `json:"spec,omitzero"`
}

// PortalMachinePoolTemplate is what a ClusterClass creates PortalMachinePools from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalmachinepooltemplates,shortName=pmpt,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Offering",type="string",JSONPath=`.spec.template.spec.serviceOfferingID`
// +kubebuilder:printcolumn:name="SSH Key Pair",type="string",JSONPath=`.spec.template.spec.sshKeyPair`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalMachinePoolTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec PortalMachinePoolTemplateSpec `json:"spec,omitzero"`
}

// PortalMachinePoolTemplateList is a list of PortalMachinePoolTemplates.
// +kubebuilder:object:root=true
type PortalMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalMachinePoolTemplate `json:"items"`
}
