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
	// AvailableCondition reports whether the portal cluster runs and its API server answers.
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
	// ForbiddenReason: the portal user may not do this.
	ForbiddenReason = "Forbidden"
	// QuotaExceededReason: the account's quota does not allow this.
	QuotaExceededReason = "QuotaExceeded"
	// InsufficientCapacityReason: the zone lacks capacity. The provider tries again.
	InsufficientCapacityReason = "InsufficientCapacity"
	// RefusedReason: the portal refuses the request. Something in the spec has to change.
	RefusedReason = "Refused"
	// NotFoundReason: the portal does not know the identifier, or it belongs to another account.
	NotFoundReason = "NotFound"
	// JobFailedReason: the portal's job ended with an error.
	JobFailedReason = "JobFailed"
	// JobStuckReason: the portal's job has been running for more than 30 minutes, plus 4 minutes for each node beyond 5 that it
	// touches.
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
	// IdentityAcceptedReason: the portal accepted the login.
	IdentityAcceptedReason = "IdentityAccepted"
	// IdentityNotFoundReason: the identity Secret does not exist.
	IdentityNotFoundReason = "IdentityNotFound"
	// IdentityInvalidReason: a key of the identity Secret is missing or malformed, or its baseURL does not lead to the portal. On
	// a PortalClusterIdentity, also: its namespace selector is malformed.
	IdentityInvalidReason = "IdentityInvalid"
	// IdentityNotAllowedReason: the PortalClusterIdentity does not exist, or does not allow the namespace to use it. Nothing is
	// created or changed at the portal. Only clusters that status.clusters of the identity lists for the namespace can be
	// deleted.
	IdentityNotAllowedReason = "IdentityNotAllowed"
	// IdentityNotReadyReason: the PortalClusterIdentity cannot be used. Its own conditions, which an administrator can read, have
	// the cause.
	IdentityNotReadyReason = "IdentityNotReady"
	// IdentityLimitReachedReason: the limits of the PortalClusterIdentity do not allow this zone or this VPC.
	IdentityLimitReachedReason = "IdentityLimitReached"
)

// Reasons of NetworkReady.
const (
	// NetworkReadyReason: VPC and network are known.
	NetworkReadyReason = "NetworkReady"
	// NetworkIsolatedReason: the portal creates an isolated network with the cluster.
	NetworkIsolatedReason = "NetworkIsolated"
	// NetworkCreatingReason: the network is being created from its CIDR.
	NetworkCreatingReason = "NetworkCreating"
	// VPCNotFoundReason: no VPC, or more than one, has the name.
	VPCNotFoundReason = "VPCNotFound"
	// WaitingForIdentityReason: the identity is not accepted yet.
	WaitingForIdentityReason = "WaitingForIdentity"
)

// Reasons of Ready and Available.
const (
	// ReadyReason: everything is as spec asks.
	ReadyReason = "Ready"
	// AvailableReason: the portal cluster runs and its API server answers.
	AvailableReason = "Available"
	// DeletingReason: the object is being deleted.
	DeletingReason = "Deleting"
	// NotDeletingReason: the object is not being deleted.
	NotDeletingReason = "NotDeleting"
)

// Reasons of Provisioned.
const (
	// ProvisionedReason: the portal cluster exists.
	ProvisionedReason = "Provisioned"
	// WaitingForClusterReason: no Cluster owns the object yet, or it has been deleted.
	WaitingForClusterReason = "WaitingForCluster"
	// WaitingForInfrastructureReason: the PortalCluster is not ready.
	WaitingForInfrastructureReason = "WaitingForInfrastructure"
	// WaitingForWorkersReason: the number of workers, or what the portal creates them from, is not known yet.
	WaitingForWorkersReason = "WaitingForWorkers"
	// TemplatesDisagreeReason: the templates of the MachineDeployments differ, but the portal makes all workers of a cluster
	// alike.
	TemplatesDisagreeReason = "TemplatesDisagree"
	// OwnedByAnotherReason: another PortalControlPlane, which the message names, owns the portal cluster. This one changes nothing
	// at the portal and on Nodes, and its deletion deletes nothing there.
	OwnedByAnotherReason = "OwnedByAnother"
	// RestoredObjectReason: the object was cloned, moved, restored or replaced, and it is not known whether its portal cluster
	// exists. Nothing is created until a person sets spec.clusterID or allows a creation.
	RestoredObjectReason = "RestoredObject"
	// CreatingReason: the portal creates the cluster.
	CreatingReason = "Creating"
	// PortalClusterGoneReason: the portal does not know the cluster, under the portal user that it belongs to. Nothing is scaled,
	// upgraded or bound. In this state, spec.clusterID can be changed.
	PortalClusterGoneReason = "PortalClusterGone"
)

// Reasons of VersionUpToDate.
const (
	// VersionUpToDateReason: the portal cluster runs spec.version.
	VersionUpToDateReason = "VersionUpToDate"
	// VersionNotOfferedReason: the portal does not offer spec.version, or installed another build of it. The message lists the
	// versions that it offers, or names the build that runs.
	VersionNotOfferedReason = "VersionNotOffered"
	// DowngradeNotSupportedReason: spec.version is lower than the running one.
	DowngradeNotSupportedReason = "DowngradeNotSupported"
	// UpgradingReason: the portal upgrades the cluster.
	UpgradingReason = "Upgrading"
	// WaitingForOperationReason: another operation has to end first.
	WaitingForOperationReason = "WaitingForOperation"
)

// Reasons of TopologyUpgradable.
const (
	// TopologyUpgradableReason: an upgrade of spec.topology.version would reach the MachineDeployments.
	TopologyUpgradableReason = "TopologyUpgradable"
	// UpgradeConcurrencyTooLowReason: the Cluster's annotation topology.cluster.x-k8s.io/upgrade-concurrency is missing, or not
	// above the number of its MachineDeployments. An upgrade would never reach them.
	UpgradeConcurrencyTooLowReason = "UpgradeConcurrencyTooLow"
	// MachineDeploymentsBehindReason: an upgrade in several steps would skip MachineDeployments, so the topology controller waits
	// for them.
	MachineDeploymentsBehindReason = "MachineDeploymentsBehind"
	// KubeletVersionDiffersReason: Nodes report spec.version with another suffix, which the topology controller takes for another
	// version.
	KubeletVersionDiffersReason = "KubeletVersionDiffers"
)

// Reasons of KubeconfigReady and Connected.
const (
	// KubeconfigStoredReason: the kubeconfig Secret exists.
	KubeconfigStoredReason = "KubeconfigStored"
	// KubeconfigInvalidReason: the kubeconfig from the portal or in the Secret cannot be used.
	KubeconfigInvalidReason = "KubeconfigInvalid"
	// KubeconfigSecretTakenReason: the kubeconfig Secret was not written by the provider and is not marked as user-managed. It is
	// neither used nor replaced.
	KubeconfigSecretTakenReason = "KubeconfigSecretTaken"
	// WaitingForPortalClusterReason: the portal cluster does not exist or does not run yet.
	WaitingForPortalClusterReason = "WaitingForPortalCluster"
	// ConnectedReason: the API server answers.
	ConnectedReason = "Connected"
	// KubeconfigExpiredReason: the credentials in the kubeconfig have expired, and the portal has no newer ones.
	KubeconfigExpiredReason = "KubeconfigExpired"
	// ConnectionDownReason: the API server does not answer.
	ConnectionDownReason = "ConnectionDown"
	// TooManyNodesReason: the replicas ask for more workers than the provider can manage, or the API server returns more Nodes.
	TooManyNodesReason = "TooManyNodes"
	// KubeconfigRefusedReason: the API server answers, but refuses the credentials in the kubeconfig.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// ServerUntrustedReason: the kubeconfig does not trust the certificate of the API server.
	ServerUntrustedReason = "ServerUntrusted"
)

// Reasons of WorkersReady.
const (
	// WorkersReadyReason: every Machine has a worker node, and every worker node a Machine or a place in the pool.
	WorkersReadyReason = "WorkersReady"
	// ScalingUpReason: the portal adds workers.
	ScalingUpReason = "ScalingUp"
	// ScalingDownReason: workers are drained, or the portal removes them.
	ScalingDownReason = "ScalingDown"
	// DrainingReason: Nodes are being drained before the provider asks the portal to remove workers.
	DrainingReason = "Draining"
	// WaitingForNodesReason: Machines or the pool wait for worker nodes.
	WaitingForNodesReason = "WaitingForNodes"
	// NodesUnclaimedReason: worker nodes exist that belong to no Machine.
	NodesUnclaimedReason = "NodesUnclaimed"
	// TemplateNotHonoredReason: a template asks for other workers than the portal cluster has. Its Machines, and the roll-out of
	// its MachineDeployment, wait until the template is reverted.
	TemplateNotHonoredReason = "TemplateNotHonored"
	// NodesDifferReason: more or fewer worker nodes exist than the portal was asked for. The provider did not cause this.
	NodesDifferReason = "NodesDiffer"
	// NodesNotReadyReason: worker nodes that hold a Machine are not Ready. The portal does not repair nodes.
	NodesNotReadyReason = "NodesNotReady"
	// WorkersUnrecognizedReason: it is not known which Nodes are workers and which are control nodes.
	WorkersUnrecognizedReason = "WorkersUnrecognized"
	// WaitingForConnectionReason: the API server of the workload cluster does not answer yet.
	WaitingForConnectionReason = "WaitingForConnection"
)

// Reasons of OperationInProgress. It also uses Creating, Upgrading, ScalingUp, ScalingDown and Deleting.
const (
	// IdleReason: nothing runs at the portal for this object.
	IdleReason = "Idle"
)

// Reasons of Ready of a PortalMachine.
const (
	// BoundReason: the claim holds a worker node.
	BoundReason = "Bound"
	// WaitingForNodeReason: no worker node is free.
	WaitingForNodeReason = "WaitingForNode"
	// WaitingForMachineReason: no Machine owns the object yet.
	WaitingForMachineReason = "WaitingForMachine"
	// ReleasedReason: the claim gave its node back. The node stays, or was removed.
	ReleasedReason = "Released"
)

// Reasons of Ready of a PortalMachinePool. It also uses WaitingForCluster and Deleting.
const (
	// PoolCompleteReason: the pool has as many nodes as the MachinePool asks for.
	PoolCompleteReason = "PoolComplete"
	// PoolGrowingReason: the pool has fewer nodes than the MachinePool asks for.
	PoolGrowingReason = "PoolGrowing"
	// PoolShrinkingReason: the pool has more nodes than the MachinePool asks for. They are drained before the portal removes them.
	PoolShrinkingReason = "PoolShrinking"
	// AnotherPoolReason: another MachinePool of the Cluster, which the message names, has the nodes that no Machine claims. The replicas of
	// this one do not count.
	AnotherPoolReason = "AnotherPool"
	// WaitingForMachinePoolReason: no MachinePool owns the object yet, or the object is being deleted while its MachinePool is
	// not.
	WaitingForMachinePoolReason = "WaitingForMachinePool"
)

// Reasons of Ready of a PortalBootstrapConfig.
const (
	// NothingToBootstrapReason: the portal bootstraps its nodes. The Secret with the empty bootstrap data exists.
	NothingToBootstrapReason = "NothingToBootstrap"
	// DataSecretTakenReason: a Secret of the name that the empty bootstrap data needs belongs to another owner.
	DataSecretTakenReason = "DataSecretTaken"
)

// Reasons of Deleting.
const (
	// DeletingPortalClusterReason: the portal deletes the cluster.
	DeletingPortalClusterReason = "DeletingPortalCluster"
	// WaitingForControlPlaneReason: the PortalControlPlane still exists.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// AccountChangedReason: the portal does not know the cluster, but another user created it, or the identity names another
	// portal than the cluster's. A person has to look.
	AccountChangedReason = "AccountChanged"
	// DeletionNotConfirmedReason: the garbage collector, or the removal of a CustomResourceDefinition, may have deleted the
	// object. The portal cluster stays until a person confirms the deletion. On WorkersReady, the workers of such an object stay.
	DeletionNotConfirmedReason = "DeletionNotConfirmed"
	// IdentityInUseReason: PortalClusters still use the PortalClusterIdentity and need it to delete their resources at the
	// portal.
	IdentityInUseReason = "IdentityInUse"
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
	// EventUnexpectedWorkersRemoved: the portal removed other workers than expected.
	EventUnexpectedWorkersRemoved = "UnexpectedWorkersRemoved"
	// EventNetworkRemains: the network created from a CIDR cannot be deleted by the portal's API.
	EventNetworkRemains = "NetworkRemains"
	// EventNetworkMayRemain: the PortalCluster is deleted, and the provider cannot know whether the portal created its network.
	EventNetworkMayRemain = "NetworkMayRemain"
	// EventPortalClusterRetained: the portal cluster was left running, because deletionPolicy is Retain or because the deleted object
	// did not own it.
	EventPortalClusterRetained = "PortalClusterRetained"
	// EventPortalClusterAdopted: the object took over a portal cluster that it did not create.
	EventPortalClusterAdopted = "PortalClusterAdopted"
	// EventOwnershipGivenUp: two objects owned one portal cluster, and the younger one gave it up.
	EventOwnershipGivenUp = "OwnershipGivenUp"
	// EventAnotherManager: the Nodes show that another management cluster probably manages the portal cluster too.
	EventAnotherManager = "AnotherManager"
	// EventDeletionHeld: the object is being deleted, but its deletion waits for a person. The condition Deleting has the reason.
	EventDeletionHeld = "DeletionHeld"
)
