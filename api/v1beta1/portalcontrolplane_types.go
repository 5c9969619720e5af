// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// DeletionPolicy is what happens to the portal cluster when its PortalControlPlane is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete deletes the portal cluster.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain leaves the portal cluster running. The portal goes on charging for it.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// RemovalOrder is the order in which a portal removes workers.
// +kubebuilder:validation:Enum=Newest;Oldest;Random
type RemovalOrder string

const (
	// RemovalOrderNewest removes the workers first that joined last.
	RemovalOrderNewest RemovalOrder = "Newest"
	// RemovalOrderOldest removes the workers first that joined first.
	RemovalOrderOldest RemovalOrder = "Oldest"
	// RemovalOrderRandom is any order, so no one can predict which workers go. All drains have to end before the portal is asked for fewer.
	RemovalOrderRandom RemovalOrder = "Random"
)

// DrainScope says which nodes are drained before a scale-down.
// +kubebuilder:validation:Enum=Expected;Possible
type DrainScope string

const (
	// DrainExpected drains the nodes that the portal is expected to remove, and a few that it may remove in their place.
	DrainExpected DrainScope = "Expected"
	// DrainPossible drains every node that the portal may remove.
	DrainPossible DrainScope = "Possible"
)

// UpgradePrecheck is what follows if the workload cluster has something that may stop an upgrade.
// +kubebuilder:validation:Enum=Warn;Hold
type UpgradePrecheck string

const (
	// UpgradePrecheckWarn asks the portal for the upgrade, and says in a condition and an event what may stop it.
	UpgradePrecheckWarn UpgradePrecheck = "Warn"
	// UpgradePrecheckHold does not ask the portal for the upgrade until nothing is found.
	UpgradePrecheckHold UpgradePrecheck = "Hold"
)

// PortalControlPlaneSpec describes the portal cluster.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID)",message="clusterID cannot be removed: it says which portal cluster this object owns"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || !has(oldSelf.clusterName) || (has(self.clusterID) && self.clusterID != oldSelf.clusterID) || (has(self.clusterName) && self.clusterName == oldSelf.clusterName)",message="clusterName cannot be changed: the portal cluster exists, and the portal does not rename clusters"
type PortalControlPlaneSpec struct {
	// version is the Kubernetes version, with a leading v, for example v1.36.3. Raising it upgrades the portal cluster, control
	// nodes first. The portal must offer the version, and does not downgrade.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-+][0-9A-Za-z.+-]*)?$')`,message="version must be a semantic version with a leading v, for example v1.36.3"
	Version string `json:"version,omitempty"`

	// replicas is the number of control nodes. Use 3 for high availability. It can be changed until the provider asks the portal for the
	// cluster, and after the portal has refused the cluster or failed to create it.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	Replicas *int32 `json:"replicas,omitempty"`

	// clusterName is the name of the cluster at the portal. When omitted, it is generated from this object's name and a few
	// random characters, before the portal is first asked, so a person can find the cluster at the portal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="clusterName must consist of lower case letters, digits and dashes"
	ClusterName string `json:"clusterName,omitempty"`

	// clusterID is the portal's identifier of the cluster. The provider sets it when the portal has created the cluster. Set it
	// to take over an existing portal cluster. It can only be changed while the portal does not know the cluster (condition
	// Provisioned with reason PortalClusterGone). Then set it to the id of another portal cluster to take that one over.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ClusterID string `json:"clusterID,omitempty"`

	// description is free text that the portal shows for the cluster.
	// +optional
	// +kubebuilder:default="Managed by Cluster API"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// deletionPolicy is what happens to the portal cluster when this object is deleted: Delete deletes it, Retain leaves it
	// running. When omitted, a cluster that this object created is deleted. When the object takes over a cluster that it did not
	// create, the provider sets Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// removalOrder is the order in which the portal removes workers: Newest or Oldest first, or Random. When omitted, the
	// provider learns it from the workers that the portal removes. Until then, it expects the newest to be removed first, and
	// removes one worker at a time. With Random, the portal may remove nodes that were not drained, and the cluster autoscaler
	// is kept from removing nodes.
	// +optional
	RemovalOrder RemovalOrder `json:"removalOrder,omitempty"`

	// drainBeforeScaleDown says which nodes are drained before the portal is asked for fewer workers. Expected, the default, are those
	// that the portal is expected to remove, and up to a tenth more that it may remove in their place. With Possible, the portal is asked
	// only when every node that it may remove is drained. If that is any of the workers, it is not asked at all, and the condition
	// WorkersReady says so.
	// +optional
	DrainBeforeScaleDown DrainScope `json:"drainBeforeScaleDown,omitempty"`

	// upgradePrecheck is what follows if the workload cluster has something that may stop an upgrade: Nodes that are not Ready or are
	// cordoned, PodDisruptionBudgets that allow no disruption, Pods without a controller, no room for the Pods of one Node on the others,
	// or something that cannot be read. With Warn, the portal is asked for the upgrade, and the condition VersionUpToDate and an event
	// name what was found. With Hold, the portal is not asked until nothing is found. When omitted, Warn applies.
	// +optional
	UpgradePrecheck UpgradePrecheck `json:"upgradePrecheck,omitempty"`

	// workerNodeSelector selects the Nodes that are workers. It is only needed if the portal marks its control nodes neither with
	// the label nor with the taint node-role.kubernetes.io/control-plane (or /master). A Node with such a mark is never a worker,
	// even if the selector matches it. When omitted, all Nodes without such a mark are workers.
	// +optional
	WorkerNodeSelector *metav1.LabelSelector `json:"workerNodeSelector,omitempty"`

	// controlPlaneEndpoint is the address of the API server. When omitted, the provider sets it from the portal's kubeconfig and
	// keeps it up to date. An endpoint that you set stays. The provider always connects to the server in the kubeconfig.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// workers is what the portal cluster is created with if it is created before the Cluster has a MachineDeployment or a MachinePool. The
	// provider waits up to a minute for those of a topology. workers can be changed until the provider asks the portal for the cluster, and
	// after the portal has refused the cluster or failed to create it. Afterwards workers has no effect.
	// +optional
	Workers *WorkerParameters `json:"workers,omitempty"`
}

// PortalControlPlaneStatus is the observed state of the portal cluster.
// +kubebuilder:validation:MinProperties=1
type PortalControlPlaneStatus struct {
	// conditions has Available, which sums up whether the cluster can be used, and Ready, which sums up whether it is as spec and
	// the replicas ask. The others report what is happening and what to do.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the lowest generation that the conditions behind Ready are about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// initialization is part of the Cluster API contract and orchestrates the first provisioning.
	// +optional
	Initialization PortalControlPlaneInitialization `json:"initialization,omitempty,omitzero"`

	// externalManagedControlPlane is true: the portal runs the control nodes, so they have no Machines.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// versions are the Kubernetes versions of the control nodes, with their number.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// version is the Kubernetes version last reached by the whole portal cluster. It changes when an upgrade has succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// selector matches no Machine, because the control nodes have none. It is part of the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is the number of control nodes.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of control nodes while the API server answers, else 0.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of control nodes while the API server answers, else 0.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is the number of control nodes while they run the wanted version, else 0.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// kubeconfigExpires is when the client certificate in the kubeconfig Secret expires. It is set if that is within 30 days, and the portal
	// has not issued another one, although it was asked. Of a user-managed Secret, the user has to renew the certificate.
	// +optional
	KubeconfigExpires *metav1.Time `json:"kubeconfigExpires,omitempty"`

	// workers counts the worker nodes.
	// +optional
	Workers *WorkerCounts `json:"workers,omitempty"`

	// removalOrder is the order in which the provider expects the portal to remove workers, and why.
	// +optional
	RemovalOrder RemovalOrderStatus `json:"removalOrder,omitempty,omitzero"`
}

// WorkerCounts counts worker nodes.
type WorkerCounts struct {
	// desired is the sum of the replicas of the Cluster's MachineDeployments and MachinePool, and of its standalone Machines.
	// +optional
	Desired int32 `json:"desired"`

	// size is the number of workers that the portal last accepted.
	// +optional
	Size int32 `json:"size"`

	// nodes is the number of worker Nodes in the workload cluster.
	// +optional
	Nodes int32 `json:"nodes"`

	// claimed is the number of worker Nodes that belong to a Machine.
	// +optional
	Claimed int32 `json:"claimed"`
}

// RemovalOrderStatus is an order in which the portal is expected to remove workers.
type RemovalOrderStatus struct {
	// order is the expected order: Newest or Oldest first, or Random if the provider expects no order.
	// +required
	Order RemovalOrder `json:"order,omitempty"`

	// source is Set if spec.removalOrder sets the order, and Observed if scale-downs of this cluster have shown it. Otherwise the
	// source is Assumed, and the provider removes one worker at a time until the portal has shown an order.
	// +required
	Source RemovalOrderSource `json:"source,omitempty"`
}

// RemovalOrderSource is the reason why an order of removal is expected.
// +kubebuilder:validation:Enum=Set;Observed;Assumed
type RemovalOrderSource string

const (
	// RemovalOrderSet is the source of an order that spec.removalOrder sets.
	RemovalOrderSet RemovalOrderSource = "Set"
	// RemovalOrderObserved is the source of an order that scale-downs of the cluster have shown.
	RemovalOrderObserved RemovalOrderSource = "Observed"
	// RemovalOrderAssumed is the source of an order that is a guess.
	RemovalOrderAssumed RemovalOrderSource = "Assumed"
)

// PortalControlPlaneInitialization is part of the Cluster API contract for ControlPlanes.
// +kubebuilder:validation:MinProperties=1
type PortalControlPlaneInitialization struct {
	// controlPlaneInitialized is true when the portal cluster runs and its kubeconfig is stored.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// PortalControlPlane is a managed Kubernetes cluster at the portal. Its controller makes every change to that cluster: create,
// upgrade, scale to the replicas of the MachineDeployments, and delete, one operation at a time.
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.clusterID) || !has(self.spec.clusterID) || self.spec.clusterID == oldSelf.spec.clusterID || (has(oldSelf.status) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'Provisioned' && c.status == 'False' && c.reason == 'PortalClusterGone'))",message="spec.clusterID cannot be changed: it says which portal cluster this object owns"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.replicas) || !has(oldSelf.spec.replicas) || self.spec.replicas == oldSelf.spec.replicas || !(has(oldSelf.spec.clusterID) || (has(oldSelf.status) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'OperationInProgress' && c.status == 'True')))",message="spec.replicas cannot be changed: the portal cluster exists or may exist, and the portal sets the number of control nodes when it creates a cluster"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.workers) == has(oldSelf.spec.workers) && (!has(self.spec.workers) || self.spec.workers == oldSelf.spec.workers)) || !(has(oldSelf.spec.clusterID) || (has(oldSelf.status) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'OperationInProgress' && c.status == 'True')))",message="spec.workers cannot be changed: the portal cluster exists or may exist, and workers is used to create it only"
// +kubebuilder:resource:path=portalcontrolplanes,shortName=pcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=`.metadata.labels.cluster\.x-k8s\.io/cluster-name`
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Operation",type="string",JSONPath=`.status.conditions[?(@.type=="OperationInProgress")].reason`
// +kubebuilder:printcolumn:name="Workers",type="integer",JSONPath=`.status.workers.desired`
// +kubebuilder:printcolumn:name="Nodes",type="integer",JSONPath=`.status.workers.nodes`
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Wanted",type="string",JSONPath=`.spec.version`,priority=1
// +kubebuilder:printcolumn:name="Portal Name",type="string",JSONPath=`.spec.clusterName`,priority=1
// +kubebuilder:printcolumn:name="Portal ID",type="string",JSONPath=`.spec.clusterID`,priority=1
// +kubebuilder:printcolumn:name="Kubeconfig Expires",type="string",JSONPath=`.status.kubeconfigExpires`,priority=1
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.reason=="Paused")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=`.metadata.creationTimestamp`
type PortalControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes the portal cluster.
	// +required
	Spec PortalControlPlaneSpec `json:"spec,omitzero"`

	// status is the observed state of the portal cluster.
	// +optional
	Status PortalControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of this object.
func (c *PortalControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions of this object.
func (c *PortalControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// PortalControlPlaneList is a list of PortalControlPlanes.
// +kubebuilder:object:root=true
type PortalControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PortalControlPlane `json:"items"`
}
