// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// WorkerParameters are what the portal creates the workers of a cluster from. All workers of a portal cluster are alike.
type WorkerParameters struct {
	// serviceOfferingID is the portal's identifier of the service offering, which is the machine type of a worker.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ServiceOfferingID string `json:"serviceOfferingID,omitempty"`

	// sshKeyPair is the name of an SSH key pair at the portal, which the nodes accept.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SSHKeyPair string `json:"sshKeyPair,omitempty"`
}

// PortalMachineSpec is a claim on a worker node.
// +kubebuilder:validation:XValidation:rule="self.serviceOfferingID == oldSelf.serviceOfferingID && self.sshKeyPair == oldSelf.sshKeyPair",message="serviceOfferingID and sshKeyPair cannot be changed: create a new PortalMachineTemplate and name it in the MachineDeployment"
type PortalMachineSpec struct {
	WorkerParameters `json:",inline"`

	// providerID identifies the worker node that this claim is bound to. The provider sets it when it binds the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// node is the Node that this claim is bound to. The provider sets it when it binds the claim.
	// +optional
	Node *BoundNode `json:"node,omitempty"`
}

// BoundNode names one Node object. A later Node of the same name has another uid.
type BoundNode struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`
}

// PortalMachineStatus is the observed state of a claim.
// +kubebuilder:validation:MinProperties=1
type PortalMachineStatus struct {
	// conditions has Ready, which reports whether the claim is bound, or what it waits for.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the object that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// initialization is part of the Cluster API contract and orchestrates the first provisioning.
	// +optional
	Initialization PortalMachineInitialization `json:"initialization,omitempty,omitzero"`

	// addresses of the Node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
}

// PortalMachineInitialization is part of the Cluster API contract for InfraMachines.
// +kubebuilder:validation:MinProperties=1
type PortalMachineInitialization struct {
	// provisioned is true when the claim is bound to a node.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// PortalMachine is one claim on one worker node of a portal cluster. The portal decides which nodes exist. The controller of the
// PortalControlPlane decides which node a claim is bound to.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalmachines,shortName=pma,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=`.spec.node.name`
// +kubebuilder:printcolumn:name="Offering",type="string",JSONPath=`.spec.serviceOfferingID`,priority=1
// +kubebuilder:printcolumn:name="Provider ID",type="string",JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.reason=="Paused")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the claim.
	// +required
	Spec PortalMachineSpec `json:"spec,omitzero"`

	// status is the observed state of the claim.
	// +optional
	Status PortalMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (m *PortalMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions sets the conditions of this object.
func (m *PortalMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// PortalMachineList is a list of PortalMachines.
// +kubebuilder:object:root=true
type PortalMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalMachine `json:"items"`
}
