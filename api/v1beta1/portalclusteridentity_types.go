// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortalClusterIdentitySpec describes which portal account the PortalClusters of the allowed namespaces use, and where.
type PortalClusterIdentitySpec struct {
	// secretRef names the Secret that holds the portal's URL (baseURL), the portal user's email and password and, optionally,
	// caBundle (PEM) and totpSeed (for users with MFA). The Secret is in the namespace of the manager, where users of the allowed
	// namespaces cannot read it. secretRef cannot be changed. To rotate credentials, change the content of the Secret.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="secretRef cannot be changed: change the content of the Secret"
	SecretRef PortalClusterIdentitySecretReference `json:"secretRef,omitzero"`

	// allowedNamespaces are the namespaces whose PortalClusters may use the identity: those in list, and those that selector matches.
	// When omitted, no namespace may use it. An empty selector ({}) allows every namespace. When a namespace is not allowed any more,
	// nothing is created or changed at the portal for its PortalClusters, but those in status.clusters can still be deleted.
	// +optional
	AllowedNamespaces *PortalIdentityNamespaces `json:"allowedNamespaces,omitempty"`

	// limits bound where the PortalClusters of the identity may have portal clusters. When omitted, only the portal limits them.
	// Lower limits remove nothing that exists already.
	// +optional
	Limits *PortalIdentityLimits `json:"limits,omitempty"`
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

// PortalIdentityLimits bound where the PortalClusters of an identity have their portal clusters.
// +kubebuilder:validation:MinProperties=1
type PortalIdentityLimits struct {
	// zones are the portal's identifiers of the zones in which clusters may be created. When omitted, all are allowed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Zones []string `json:"zones,omitempty"`

	// vpcs are the portal's identifiers (not the names) of the VPCs that a PortalCluster may name. When omitted, all are allowed. A network
	// that a PortalCluster names by its id is not checked, because the provider cannot look up the VPC of a network.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	VPCs []string `json:"vpcs,omitempty"`
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

	// clusters are the portal clusters that belong to objects of a namespace, recorded while the namespace was allowed to use the
	// identity. When it is not allowed any more, its objects can delete these and no others.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=10000
	Clusters []PortalIdentityCluster `json:"clusters,omitempty"`
}

// PortalIdentityCluster is a portal cluster that belongs to an object of a namespace.
type PortalIdentityCluster struct {
	// id is the portal's identifier of the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// namespace of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
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

	// spec describes which portal account is used, by which namespaces, and how much of it.
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
