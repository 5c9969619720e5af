// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a PortalCluster. It also has Paused and Deleting, like every Cluster API object.
const (
	// ReadyCondition of a PortalCluster sums up identity and network. Of a PortalControlPlane, it reports whether the portal
	// cluster is as spec and the replicas ask: available, of that version, with those workers. Of a PortalMachine, it reports
	// whether the claim is bound, of a PortalMachinePool whether the pool has all its nodes, of a PortalBootstrapConfig whether
	// its Secret exists, and of a PortalClusterIdentity whether its Secret is complete.
	ReadyCondition = "Ready"
	// IdentityReadyCondition reports whether the portal accepts the credentials in the identity Secret.
	IdentityReadyCondition = "IdentityReady"
	// NetworkReadyCondition reports whether VPC and network are known.
	NetworkReadyCondition = "NetworkReady"
)

// Condition types of a PortalControlPlane. It also has RollingOut, ScalingUp, ScalingDown, Paused and Deleting, like other
// control planes.
const (
	// AvailableCondition reports whether the portal cluster runs and its API server answers the provider.
	AvailableCondition = "Available"
	// ProvisionedCondition reports whether the portal cluster exists, or what its creation waits for.
	ProvisionedCondition = "Provisioned"
	// KubeconfigReadyCondition reports whether the kubeconfig Secret can be used.
	KubeconfigReadyCondition = "KubeconfigReady"
	// ConnectedCondition reports whether the workload cluster's API server answers.
	ConnectedCondition = "Connected"
	// VersionUpToDateCondition reports whether the portal cluster runs spec.version.
	VersionUpToDateCondition = "VersionUpToDate"
	// WorkersReadyCondition reports whether every Machine has a worker node and every worker node a Machine, or what is being
	// done about it.
	WorkersReadyCondition = "WorkersReady"
	// OperationInProgressCondition names the operation that runs at the portal.
	OperationInProgressCondition = "OperationInProgress"
	// TopologyUpgradableCondition reports whether the topology controller would complete an upgrade. Only Clusters with a
	// topology have it.
	TopologyUpgradableCondition = "TopologyUpgradable"
)

// Reasons of all conditions. Conditions whose good state is False, such as Deleting, use the reasons of Cluster API: NotDeleting,
// NotRollingOut, NotScalingUp, NotScalingDown.
const (
	// ReadyReason: the good state of the condition. The message has what is special about it.
	ReadyReason = "Ready"
	// WaitingForDependencyReason: another condition or object, which the message names, has to become ready or to go first, and
	// has the cause.
	WaitingForDependencyReason = "WaitingForDependency"
	// WaitingForObjectReason: an object, or a field of an object, does not exist yet. The message says who creates it.
	WaitingForObjectReason = "WaitingForObject"
	// DeletingReason: the object is being deleted, or the portal deletes the cluster.
	DeletingReason = "Deleting"
)

// Reasons for which the portal cannot be used. They appear on the condition that waits for the portal.
const (
	// PortalUnavailableReason: the portal cannot be reached or is in maintenance. The provider tries again.
	PortalUnavailableReason = "PortalUnavailable"
	// PortalBusyReason: another operation is running on the portal cluster. The provider waits for it.
	PortalBusyReason = "PortalBusy"
	// UnauthorizedReason: the portal refuses the e-mail address or password of the identity Secret.
	UnauthorizedReason = "Unauthorized"
	// MFARequiredReason: the portal user needs a one-time code.
	MFARequiredReason = "MFARequired"
	// RefusedReason: the portal refuses the request. The message has the portal's code and what has to change: the spec, the rights of
	// the portal user, or the account's quota. The portal may also not know what the spec names, such as a VPC.
	RefusedReason = "Refused"
	// InsufficientCapacityReason: the zone lacks capacity. Nothing has to change: the provider tries again until the zone has room. A
	// cluster that was not created yet can be given another zone.
	InsufficientCapacityReason = "InsufficientCapacity"
	// JobFailedReason: the portal's job ended with an error.
	JobFailedReason = "JobFailed"
	// OperationStoppedReason: the jobs for an operation failed again and again, and each may have drained nodes, or left something at the portal. The
	// provider repeats the operation when a person allows it, or asks for something else.
	OperationStoppedReason = "OperationStopped"
	// JobStuckReason: the portal's job has shown no progress for more than 30 minutes. The nodes show the progress of a scale or an
	// upgrade. Of other jobs, and without a connection, their age counts.
	JobStuckReason = "JobStuck"
	// OutcomeUnknownReason: a call was cut off, so the portal may or may not have acted on it. A person has to look.
	OutcomeUnknownReason = "OutcomeUnknown"
	// AnswerLostReason: the portal's answer to a scale, an upgrade or a deletion was lost. The operation counts as running until
	// the nodes show that it is done, or until it is sent again.
	AnswerLostReason = "AnswerLost"
	// AnnotationUnreadableReason: an annotation of this provider was changed and cannot be read any more.
	AnnotationUnreadableReason = "AnnotationUnreadable"
	// InternalErrorReason: an unexpected error. The manager's log has the cause.
	InternalErrorReason = "InternalError"
)

// Reasons of IdentityReady.
const (
	// IdentityInvalidReason: the identity Secret does not exist, one of its keys is missing or malformed, or its baseURL does not lead
	// to the portal. On a PortalClusterIdentity, also: its namespace selector is malformed.
	IdentityInvalidReason = "IdentityInvalid"
	// IdentityNotAllowedReason: the PortalClusterIdentity does not exist, or does not allow the namespace. Nothing is created, changed
	// or deleted at the portal.
	IdentityNotAllowedReason = "IdentityNotAllowed"
	// IdentityNotReadyReason: the PortalClusterIdentity cannot be used. Its own conditions, which an administrator can read, have
	// the cause.
	IdentityNotReadyReason = "IdentityNotReady"
)

// Reasons of Provisioned.
const (
	// OwnedByAnotherReason: another PortalControlPlane, which the message names, owns the portal cluster. This one changes nothing
	// at the portal and on Nodes, and its deletion deletes nothing there. Of a PortalMachinePool: another MachinePool of the Cluster,
	// which the message names, has the nodes that no Machine claims. The replicas of this one do not count.
	OwnedByAnotherReason = "OwnedByAnother"
	// RestoredObjectReason: the object was cloned, moved, restored or replaced, and it is not known whether its portal cluster
	// exists. Nothing is created until a person sets spec.clusterID or allows a creation.
	RestoredObjectReason = "RestoredObject"
	// CreationsHeldReason: the identity's Secret holds creations, so no cluster, network or VPC is created. If the portal cluster of this
	// object exists, set spec.clusterID. If not, a person allows creations in the Secret.
	CreationsHeldReason = "CreationsHeld"
	// CreatingReason: the portal creates the cluster, or the network of a PortalCluster.
	CreatingReason = "Creating"
	// PortalClusterGoneReason: the portal does not know the cluster, under the portal user that it belongs to. Nothing is scaled,
	// upgraded or bound. In this state, spec.clusterID can be changed.
	PortalClusterGoneReason = "PortalClusterGone"
)

// Reasons of VersionUpToDate.
const (
	// VersionNotOfferedReason: the portal does not offer spec.version, or installed another build of it, or no component reports the suffix of
	// spec.version, or spec.version is lower than the running one. The message lists the versions to choose from, or names the one that runs.
	VersionNotOfferedReason = "VersionNotOffered"
	// UpgradeHeldReason: spec.upgradePrecheck is Hold, and the workload cluster has something that may stop the upgrade. The message names it.
	UpgradeHeldReason = "UpgradeHeld"
	// UpgradingReason: the portal upgrades the cluster.
	UpgradingReason = "Upgrading"
	// WaitingForOperationReason: another operation has to end first.
	WaitingForOperationReason = "WaitingForOperation"
)

// Reasons of TopologyUpgradable.
const (
	// TopologyNotUpgradableReason: an upgrade of spec.topology.version would stop before the MachineDeployments. The message names what
	// to change: an annotation of the Cluster, the versions of the MachineDeployments, or the version that the Cluster is created with.
	TopologyNotUpgradableReason = "TopologyNotUpgradable"
)

// Reasons of KubeconfigReady and Connected.
const (
	// KubeconfigInvalidReason: the kubeconfig from the portal or in the Secret cannot be used.
	KubeconfigInvalidReason = "KubeconfigInvalid"
	// KubeconfigRefusedReason: the kubeconfig gives no access, and the portal has no other one. Its credentials have expired, the API
	// server refuses them, or the certificate of the API server does not match it.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// KubeconfigNotSharedReason: the provider has a kubeconfig, but others do not find it in the Secret. The management cluster refuses to
	// store the Secret, or a user-managed Secret lacks the label by which Cluster API finds it.
	KubeconfigNotSharedReason = "KubeconfigNotShared"
	// SecretTakenReason: someone else wrote a Secret with the name of the kubeconfig Secret, or of the Secret with the empty bootstrap
	// data. The provider neither uses nor replaces it.
	SecretTakenReason = "SecretTaken"
	// ConnectionDownReason: the API server does not answer.
	ConnectionDownReason = "ConnectionDown"
	// TooManyNodesReason: the replicas ask for more workers than the provider can manage, or the API server returns more Nodes.
	TooManyNodesReason = "TooManyNodes"
)

// Reasons of WorkersReady.
const (
	// ScalingUpReason: the portal adds workers, or a pool has fewer nodes than its MachinePool asks for.
	ScalingUpReason = "ScalingUp"
	// ScalingDownReason: workers are drained, or the portal removes them. Or a pool has more nodes than its MachinePool asks for.
	ScalingDownReason = "ScalingDown"
	// DrainingReason: Nodes are being drained before the provider asks the portal to remove workers.
	DrainingReason = "Draining"
	// WaitingForNodesReason: Machines or the pool wait for worker nodes.
	WaitingForNodesReason = "WaitingForNodes"
	// NodesUnclaimedReason: worker nodes exist that belong to no Machine.
	NodesUnclaimedReason = "NodesUnclaimed"
	// TemplateNotHonoredReason: a template asks for other workers than the portal cluster has. Its Machines, and the roll-out of
	// its MachineDeployment, wait until the template is reverted. Before the creation: the templates differ, but the portal makes all
	// workers of a cluster alike.
	TemplateNotHonoredReason = "TemplateNotHonored"
	// NodesDifferReason: more or fewer worker nodes exist than the portal was asked for. The provider did not cause this.
	NodesDifferReason = "NodesDiffer"
	// NodesNotReadyReason: worker nodes that hold a Machine are not Ready. The portal does not repair nodes.
	NodesNotReadyReason = "NodesNotReady"
	// OrderUnknownReason: the portal is not asked for fewer workers, because spec.drainBeforeScaleDown is Possible and it may remove any of them.
	OrderUnknownReason = "OrderUnknown"
	// ScaleDownDisabledReason: the workers are ready, but the cluster autoscaler is kept from removing nodes, because the portal removes them in
	// no known order, or because the Pods that must stay cannot be listed.
	ScaleDownDisabledReason = "ScaleDownDisabled"
	// WorkersUnrecognizedReason: it is not known which Nodes are workers and which are control nodes.
	WorkersUnrecognizedReason = "WorkersUnrecognized"
)

// Reasons of OperationInProgress. It also uses Creating, Upgrading, ScalingUp, ScalingDown and Deleting.
const (
	// IdleReason: nothing runs at the portal for this object.
	IdleReason = "Idle"
)

// Reasons of Ready of a PortalMachine.
const (
	// ReleasedReason: the claim gave its node back. The node stays, or was removed.
	ReleasedReason = "Released"
)

// Reasons of Deleting.
const (
	// AccountChangedReason: the portal does not know the cluster, but another user created it, or the identity names another
	// portal than the cluster's. A person has to look.
	AccountChangedReason = "AccountChanged"
	// DeletionNotConfirmedReason: the garbage collector, or the removal of a CustomResourceDefinition, may have deleted the
	// object. The portal cluster stays until a person confirms the deletion. On WorkersReady, the workers of such an object stay.
	DeletionNotConfirmedReason = "DeletionNotConfirmed"
	// DeletionProtectedReason: the object was deleted although it, or its Cluster, is protected against deletion. The portal cluster stays.
	DeletionProtectedReason = "DeletionProtected"
)

// Reasons of events. They are emitted only when something changed. A condition that starts to wait for a person emits a Warning
// with the condition's reason, and again when that reason changes.
const (
	// EventOperationStarted: the portal accepted an operation.
	EventOperationStarted = "OperationStarted"
	// EventOperationSucceeded: the portal finished an operation.
	EventOperationSucceeded = "OperationSucceeded"
	// EventOperationFailed: the portal's job failed.
	EventOperationFailed = "OperationFailed"
	// EventUpgradeObstacles: the portal accepted an upgrade, and the workload cluster has something that may stop it.
	EventUpgradeObstacles = "UpgradeObstacles"
	// EventNodeDrainStarted: core or the provider drains a worker node, because the portal is expected to remove it next.
	EventNodeDrainStarted = "NodeDrainStarted"
	// EventNodeDrainBlocked: Pods that cannot be evicted hold the drain of a worker node.
	EventNodeDrainBlocked = "NodeDrainBlocked"
	// EventNodeDrainEnded: the drain of a worker node has ended, or the node stays and takes Pods again.
	EventNodeDrainEnded = "NodeDrainEnded"
	// EventMachineMoved: a Machine was moved from one Node to another.
	EventMachineMoved = "MachineMoved"
	// EventUnexpectedWorkersRemoved: the portal removed other workers than expected.
	EventUnexpectedWorkersRemoved = "UnexpectedWorkersRemoved"
	// EventUndrainedWorkersRemoved: the portal removed worker nodes that were not drained.
	EventUndrainedWorkersRemoved = "UndrainedWorkersRemoved"
	// EventNetworkRemains: the network created from a CIDR, or the VPC that was to be created, cannot be deleted by the portal's API.
	EventNetworkRemains = "NetworkRemains"
	// EventNetworkMayRemain: the PortalCluster is deleted, and the provider cannot know whether the portal created its network.
	EventNetworkMayRemain = "NetworkMayRemain"
	// EventVolumesRemain: the portal cluster is deleted, and volumes of it remain. The message names them. There are several events if
	// they are many.
	EventVolumesRemain = "VolumesRemain"
	// EventVolumesMayRemain: the portal cluster is deleted, and it is not known which volumes remain: its API server did not list them, or
	// not all of them, or an id is malformed.
	EventVolumesMayRemain = "VolumesMayRemain"
	// EventPortalClusterRetained: the portal cluster was left running, because deletionPolicy is Retain or because the deleted object
	// did not own it.
	EventPortalClusterRetained = "PortalClusterRetained"
	// EventPortalClusterAdopted: the object took over a portal cluster that it did not create.
	EventPortalClusterAdopted = "PortalClusterAdopted"
	// EventOwnershipGivenUp: two objects owned one portal cluster, and the younger one gave it up.
	EventOwnershipGivenUp = "OwnershipGivenUp"
	// EventAnotherManager: the Nodes show that another management cluster probably manages the portal cluster too.
	EventAnotherManager = "AnotherManager"
	// EventProtectionIncomplete: of a Cluster and its PortalControlPlane, only one has the annotation that protects against deletion.
	EventProtectionIncomplete = "ProtectionIncomplete"
	// EventDeletionHeld: the object is being deleted, but its deletion waits for a person. The condition Deleting has the reason.
	EventDeletionHeld = "DeletionHeld"
)
