// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortalClusterIdentitySpec describes which portal account the PortalClusters of the allowed namespaces use.
type PortalClusterIdentitySpec struct {
	// secretRef names the Secret that holds the portal's URL (baseURL), the portal user's email and password and, optionally,
	// caBundle (PEM) and totpSeed (for users with MFA). The Secret is in the namespace of the manager, where users of the allowed
	// namespaces cannot read it. secretRef cannot be changed. To rotate credentials, change the content of the Secret.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="secretRef cannot be changed: change the content of the Secret"
	SecretRef PortalClusterIdentitySecretReference `json:"secretRef,omitzero"`

	// allowedNamespaces are the namespaces whose PortalClusters may use the identity: those in list, and those that selector matches.
	// When omitted, no namespace may use it. An empty selector ({}) allows every namespace. When a namespace is not allowed any more,
	// nothing is created, changed or deleted at the portal for its PortalClusters.
	// +optional
	AllowedNamespaces *PortalIdentityNamespaces `json:"allowedNamespaces,omitempty"`
}

// PortalClusterIdentitySecretReference names a Secret in the namespace of the manager.
type PortalClusterIdentitySecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// PortalIdentityNamespaces are namespaces: those in list, and those that selector matches.
// +kubebuilder:validation:MinProperties=1
type PortalIdentityNamespaces struct {
	// list of names of namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]+(-+[a-z0-9]+)*$`
	List []string `json:"list,omitempty"`

	// selector of namespaces by their labels. An empty selector ({}) matches every namespace. When omitted, it matches none.
	// Anyone who may set labels on a namespace can make it match, except for the label kubernetes.io/metadata.name, which is
	// always the namespace's name.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PortalClusterIdentityStatus is the observed state of a PortalClusterIdentity.
// +kubebuilder:validation:MinProperties=1
type PortalClusterIdentityStatus struct {
	// conditions has Ready, which reports whether the Secret exists and is complete. IdentityReady of the PortalClusters that use
	// it reports whether the portal accepts it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// PortalClusterIdentity lets PortalClusters of other namespaces use a portal account whose password their users cannot read. An administrator
// creates it, together with a Secret in the manager's namespace. A PortalCluster names it in spec.identityRef, with kind
// PortalClusterIdentity.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=portalclusteridentities,shortName=pcid,scope=Cluster,categories=cluster-api
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Secret",type="string",JSONPath=`.spec.secretRef.name`,priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalClusterIdentity struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes which portal account is used, and by which namespaces.
	// +required
	Spec PortalClusterIdentitySpec `json:"spec,omitzero"`

	// status is the observed state of the PortalClusterIdentity.
	// +optional
	Status PortalClusterIdentityStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (i *PortalClusterIdentity) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions sets the conditions of this object.
func (i *PortalClusterIdentity) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// PortalClusterIdentityList is a list of PortalClusterIdentities.
// +kubebuilder:object:root=true
type PortalClusterIdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalClusterIdentity `json:"items"`
}
