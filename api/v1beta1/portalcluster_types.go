// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortalClusterSpec describes where at the portal a Cluster is placed, and under which account.
type PortalClusterSpec struct {
	// identityRef names the Secret, in the namespace of this object, that holds the portal's URL (baseURL), the portal user's
	// email and password and, optionally, caBundle (PEM) and totpSeed (for users with MFA). With kind PortalClusterIdentity, it
	// names an account that an administrator shares with this namespace. It cannot be changed. To rotate credentials, change the
	// content of the Secret.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="identityRef cannot be changed: change the content of the Secret"
	IdentityRef PortalIdentityReference `json:"identityRef,omitzero"`

	// zoneID is the portal's identifier of the zone. It can be changed until the provider asks the portal for the cluster, and after
	// the portal has refused the cluster or failed to create it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ZoneID string `json:"zoneID,omitempty"`

	// vpc is the virtual private cloud that holds the network, by id or by name. It can be changed for as long as zoneID, except for the
	// name of a VPC that was created or may have been created.
	// +required
	VPC PortalVPC `json:"vpc,omitzero"`

	// network receives the nodes. It names an existing network by id, or a CIDR from which one is created. When omitted, the
	// portal creates an isolated network, which cannot route to other resources without extra setup. It can be changed for as long as
	// zoneID, except for a CIDR from which a network was created or may have been created.
	// +optional
	Network *PortalNetwork `json:"network,omitempty"`
}

// PortalIdentityKind is the kind of an identity reference.
// +kubebuilder:validation:Enum=Secret;PortalClusterIdentity
type PortalIdentityKind string

const (
	// PortalIdentitySecret is a Secret in the namespace of the object that refers to it.
	PortalIdentitySecret PortalIdentityKind = "Secret"
	// PortalIdentityShared is a PortalClusterIdentity, whose Secret is in the manager's namespace.
	PortalIdentityShared PortalIdentityKind = "PortalClusterIdentity"
)

// PortalIdentityReference names an identity Secret or a PortalClusterIdentity.
type PortalIdentityReference struct {
	// kind is Secret, for a Secret in the namespace of the object that refers to it, or PortalClusterIdentity.
	// +optional
	// +kubebuilder:default=Secret
	Kind PortalIdentityKind `json:"kind,omitempty"`

	// name of the Secret or PortalClusterIdentity.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// PortalVPC identifies a virtual private cloud, or names one to create.
// +kubebuilder:validation:XValidation:rule="!has(self.create) || !self.create || has(self.name)",message="create needs the name of the VPC"
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.name)",message="give either id or name of the VPC, not both"
type PortalVPC struct {
	// id is the portal's identifier of the VPC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// name of the VPC. Exactly one VPC of the account must have it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// create has the provider create the VPC if the account has none of that name. The portal's API cannot delete VPCs, so the VPC
	// remains when the Cluster is deleted.
	// +optional
	Create *bool `json:"create,omitempty"`
}

// PortalNetwork identifies an existing network, or describes one to create.
// +kubebuilder:validation:XValidation:rule="has(self.id) != has(self.cidr)",message="give either id (an existing network) or cidr (a new one) of the network, not both"
type PortalNetwork struct {
	// id is the portal's identifier of an existing network or tier.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ID string `json:"id,omitempty"`

	// cidr of a network that the provider creates once, for example 10.0.0.0/24. A /24 has 251 usable addresses. For more than 200 nodes,
	// the portal advises a /23. The portal's API cannot delete networks, so the network remains when the Cluster is deleted.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="cidr must be a network in CIDR notation without host bits, for example 10.0.0.0/24"
	CIDR string `json:"cidr,omitempty"`
}

// PortalClusterStatus is the observed state of a PortalCluster.
// +kubebuilder:validation:MinProperties=1
type PortalClusterStatus struct {
	// conditions has Ready, which sums up IdentityReady and NetworkReady.
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
	Initialization PortalClusterInitialization `json:"initialization,omitempty,omitzero"`

	// zoneID is the zone in which the portal cluster exists, or may exist because its creation has not ended. Then the place in spec
	// cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ZoneID string `json:"zoneID,omitempty"`

	// vpcID is the portal's identifier of the VPC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	VPCID string `json:"vpcID,omitempty"`

	// networkID is the portal's identifier of the network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	NetworkID string `json:"networkID,omitempty"`
}

// PortalClusterInitialization is part of the Cluster API contract for InfraClusters.
// +kubebuilder:validation:MinProperties=1
type PortalClusterInitialization struct {
	// provisioned is true when the identity is accepted, VPC and network are known, and the control plane has a kubeconfig:
	// Cluster API connects to the workload cluster then. The control plane itself waits for the condition Ready.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// PortalCluster is the infrastructure of a Cluster API Cluster at the portal: account, zone, VPC and network. The
// control plane endpoint comes from the PortalControlPlane.
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="self.spec.zoneID == oldSelf.spec.zoneID || !has(oldSelf.status) || !has(oldSelf.status.zoneID)",message="spec.zoneID cannot be changed: the portal cluster exists or may exist, and the portal does not move clusters between zones"
// +kubebuilder:validation:XValidation:rule="self.spec.vpc == oldSelf.spec.vpc || !has(oldSelf.status) || !has(oldSelf.status.zoneID)",message="spec.vpc cannot be changed: the portal cluster exists or may exist, and the portal places a cluster when it creates it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.vpc.create) || !oldSelf.spec.vpc.create || has(self.spec.vpc.id) || self.spec.vpc == oldSelf.spec.vpc || (has(oldSelf.status) && !has(oldSelf.status.vpcID) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'NetworkReady' && c.reason in ['Refused', 'InsufficientCapacity', 'JobFailed']))",message="spec.vpc.name cannot be changed: the VPC exists or may exist. To use another VPC, set id instead"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.network) == has(oldSelf.spec.network) && (!has(self.spec.network) || self.spec.network == oldSelf.spec.network || (has(oldSelf.spec.network.cidr) && has(self.spec.network.id)))) || !has(oldSelf.status) || !has(oldSelf.status.zoneID)",message="spec.network cannot be changed: the portal cluster exists or may exist, and the portal places a cluster when it creates it"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.network) || !has(oldSelf.spec.network.cidr) || (has(self.spec.network) && (has(self.spec.network.id) || self.spec.network.cidr == oldSelf.spec.network.cidr)) || (has(oldSelf.status) && !has(oldSelf.status.networkID) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'NetworkReady' && c.reason in ['Refused', 'InsufficientCapacity', 'JobFailed']))",message="spec.network.cidr cannot be changed: the network exists or may exist. To use another network, set id instead"
// +kubebuilder:resource:path=portalclusters,shortName=pcl,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=`.spec.zoneID`,priority=1
// +kubebuilder:printcolumn:name="Network",type="string",JSONPath=`.status.networkID`,priority=1
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.reason=="Paused")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes where at the portal the Cluster is placed, and under which account.
	// +required
	Spec PortalClusterSpec `json:"spec,omitzero"`

	// status is the observed state of the PortalCluster.
	// +optional
	Status PortalClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (c *PortalCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions of this object.
func (c *PortalCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// PortalClusterList is a list of PortalClusters.
// +kubebuilder:object:root=true
type PortalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalCluster `json:"items"`
}
