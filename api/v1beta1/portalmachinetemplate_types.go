// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// PortalMachineTemplateSpec holds the template.
type PortalMachineTemplateSpec struct {
	// template of the PortalMachines. It cannot be changed: create a new PortalMachineTemplate and name it in the
	// MachineDeployment.
	// +required
	Template PortalMachineTemplateResource `json:"template,omitzero"`
}

// PortalMachineTemplateResource describes the PortalMachines created from the template.
type PortalMachineTemplateResource struct {
	// metadata is added to the PortalMachines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes what the portal creates the workers from.
	// +required
	Spec WorkerParameters `json:"spec,omitzero"`
}

// PortalMachineTemplateStatus is what nodes made from the template report. The cluster autoscaler needs it to scale a
// MachineDeployment up from zero (CAPI contract, InfraMachineTemplate: support cluster autoscaling from zero).
// +kubebuilder:validation:MinProperties=1
type PortalMachineTemplateStatus struct {
	// capacity of a node: how much of each resource it has, for example of cpu and memory.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo of a node.
	// +optional
	NodeInfo PortalNodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// PortalNodeInfo is the architecture and operating system of a node.
// +kubebuilder:validation:MinProperties=1
type PortalNodeInfo struct {
	// architecture of the node, for example amd64.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Architecture string `json:"architecture,omitempty"`

	// operatingSystem of the node, for example linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// PortalMachineTemplate describes what the portal creates the workers of a MachineDeployment from. The portal makes all workers
// of a cluster alike, so the templates of a Cluster's MachineDeployments must agree.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalmachinetemplates,shortName=pmt,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Offering",type="string",JSONPath=`.spec.template.spec.serviceOfferingID`
// +kubebuilder:printcolumn:name="SSH Key Pair",type="string",JSONPath=`.spec.template.spec.sshKeyPair`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec PortalMachineTemplateSpec `json:"spec,omitzero"`

	// status is what nodes made from the template report.
	// +optional
	Status PortalMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// PortalMachineTemplateList is a list of PortalMachineTemplates.
// +kubebuilder:object:root=true
type PortalMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalMachineTemplate `json:"items"`
}
