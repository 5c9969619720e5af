// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortalMachinePoolSpec describes a pool of worker nodes.
// +kubebuilder:validation:XValidation:rule="self.serviceOfferingID == oldSelf.serviceOfferingID && self.sshKeyPair == oldSelf.sshKeyPair",message="serviceOfferingID and sshKeyPair cannot be changed: the portal makes all workers of a cluster alike"
type PortalMachinePoolSpec struct {
	WorkerParameters `json:",inline"`

	// providerIDList holds the providerIDs of the Nodes of the pool. The provider fills it in. Cluster API deletes the Node object of an
	// ID that leaves the list, so an ID stays until its Node is gone, even if a Machine has taken the Node over.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
}

// PortalMachinePoolStatus is the observed state of a pool.
// +kubebuilder:validation:MinProperties=1
type PortalMachinePoolStatus struct {
	// conditions has Ready, which reports whether the pool has as many nodes as the MachinePool asks for, or what it waits for.
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
	Initialization PortalMachinePoolInitialization `json:"initialization,omitempty,omitzero"`

	// ready is true when initialization.provisioned is. It is a field of an earlier version of the contract, and Cluster API
	// v1.14 reads this field, not the new one.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// replicas is the number of nodes in spec.providerIDList. It is more than the MachinePool asks for while a Machine has taken a node of the
	// pool over.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// PortalMachinePoolInitialization is part of the Cluster API contract for InfraMachinePools.
// +kubebuilder:validation:MinProperties=1
type PortalMachinePoolInitialization struct {
	// provisioned is true when the pool has had all its nodes once.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// PortalMachinePool is the pool of the worker nodes that no Machine claims. The replicas of its MachinePool count in the number
// of workers that the provider asks the portal for. A Cluster has one pool at most, beside any number of MachineDeployments.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalmachinepools,shortName=pmp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Offering",type="string",JSONPath=`.spec.serviceOfferingID`,priority=1
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.reason=="Paused")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalMachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes the pool.
	// +required
	Spec PortalMachinePoolSpec `json:"spec,omitzero"`

	// status is the observed state of the pool.
	// +optional
	Status PortalMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (p *PortalMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions sets the conditions of this object.
func (p *PortalMachinePool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// PortalMachinePoolList is a list of PortalMachinePools.
// +kubebuilder:object:root=true
type PortalMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalMachinePool `json:"items"`
}
