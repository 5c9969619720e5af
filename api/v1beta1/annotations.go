// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Annotations that begin with infrastructure.cluster.x-k8s.io/portal- decide what the provider acts on. A user who writes them on
// a PortalCluster or a PortalControlPlane needs the verb adopt (config/admission/adoption.yaml). On these two kinds
// they are the provider's memory, and remain until the object is deleted. Those of a Machine are removed when they are not needed any more.
const (
	// OperationAnnotation holds the last operation at the portal (JSON). It is written before the call that starts the operation,
	// gets the job's id after the answer, and a result when the operation has ended. Without a result it is in flight.
	OperationAnnotation = "infrastructure.cluster.x-k8s.io/portal-operation"

	// RecordAnnotation holds facts about a portal cluster that cannot be read back from the portal or from Kubernetes (JSON): the
	// parameters it was created with, the user that created it, the size the portal last accepted, the version last reached. It
	// also holds the UID of the object that wrote it and the id of the portal cluster that this object owns, so a copy owns
	// nothing.
	RecordAnnotation = "infrastructure.cluster.x-k8s.io/portal-record"

	// NetworkAnnotation holds the id of the network that was created from spec.network.cidr of a PortalCluster.
	NetworkAnnotation = "infrastructure.cluster.x-k8s.io/portal-network"

	// DecisionAnnotation is set by a person, on a PortalControlPlane or a PortalCluster, where the provider cannot decide alone. Its value is
	// a Decision, a colon, and the id of what it is about. The condition's message has the command.
	DecisionAnnotation = "infrastructure.cluster.x-k8s.io/decision"

	// OwnerAnnotation of a PortalControlPlane holds the UID of the Cluster that owned it when the provider last reconciled it
	// before its deletion. An owner reference alone does not show who deleted an object: core corrects the reference of an object
	// that the garbage collector has just deleted.
	OwnerAnnotation = "infrastructure.cluster.x-k8s.io/portal-owner"

	// DeletionProtectionAnnotation is set by a person on a Cluster and its PortalControlPlane, to "true". Every other value but "" and "false"
	// protects too. The API server refuses to delete an object that has it. If one of the two has it, the provider does not delete the portal
	// cluster. If the Cluster has it, worker nodes stay when all MachineDeployments are deleted.
	DeletionProtectionAnnotation = "infrastructure.cluster.x-k8s.io/deletion-protection"

	// UserManagedAnnotation is set by a person on the kubeconfig Secret <cluster>-kubeconfig, to "true", if the kubeconfig is
	// their own. The provider uses the kubeconfig, if its content is allowed, and never replaces it.
	UserManagedAnnotation = "infrastructure.cluster.x-k8s.io/user-managed"

	// AutoscalerRemovesNodesAnnotation is set by a person on a MachinePool, to "true", if its cluster autoscaler can remove nodes of a pool, as it
	// can from 1.37 on. An earlier one would evict the Pods of such a node, and then fail to remove it, again and again.
	AutoscalerRemovesNodesAnnotation = "infrastructure.cluster.x-k8s.io/autoscaler-removes-nodes"

	// PreDrainHook holds a Machine that is being deleted until the provider has decided which node is removed with it.
	PreDrainHook = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/portal"

	// PreTerminateHook holds a drained Machine until its Node has the annotation DrainedAnnotation.
	PreTerminateHook = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/portal"
)

// Decision is what a person has decided about an operation or an object (DecisionAnnotation).
type Decision string

const (
	// DecisionRetry allows an operation whose outcome is unknown to be tried once more, after a person has checked at the portal that it did
	// not happen. With the id of a failed operation, it allows one more job (reasons JobFailed and OperationStopped). With the UID of a
	// PortalControlPlane that was cloned, moved or restored (reason RestoredObject), it allows a creation, if no portal cluster exists for the
	// object. No backup or clone carries the permission along, since every copy has another UID.
	DecisionRetry Decision = "retry"

	// DecisionAbandon ends a scale, upgrade or delete that does not end by itself. The provider stops looking at its job and decides again
	// from what it sees.
	DecisionAbandon Decision = "abandon"

	// DecisionDelete confirms that the portal cluster with the id is to be deleted, on a PortalControlPlane whose deletion is held.
	DecisionDelete Decision = "delete"

	// DecisionTrust says, on a PortalControlPlane, that the portal at the address in baseURL of the identity is the portal of its cluster, under
	// a new URL. A user needs the verb adopt for it: at another portal, the id may belong to someone else's cluster.
	DecisionTrust Decision = "trust"
)

// DeletionProtected reports whether DeletionProtectionAnnotation protects the object.
func DeletionProtected(obj metav1.Object) bool {
	value := obj.GetAnnotations()[DeletionProtectionAnnotation]
	return value != "" && value != "false"
}

// About returns the value of DecisionAnnotation for this decision about the operation or object with the id.
func (d Decision) About(id string) string { return string(d) + ":" + id }

// MadeOn reports whether the object has this decision about the id.
func (d Decision) MadeOn(obj metav1.Object, id string) bool {
	return obj.GetAnnotations()[DecisionAnnotation] == d.About(id)
}

// ClusterIDAnnotation is set by users, on a PortalControlPlane or, with a ClusterClass, in spec.topology.controlPlane.metadata of the Cluster. Its
// value is the id of the portal cluster that the object had in another management cluster. An object with it and without spec.clusterID creates
// no portal cluster.
const ClusterIDAnnotation = "infrastructure.cluster.x-k8s.io/cluster-id"

// Annotations of the provider on the Nodes of workload clusters. The provider removes them when it lets go of a portal cluster that stays. They
// remain if the portal is removing nodes then, if the API server of the workload cluster refuses the change, and if the provider cannot reach it.
const (
	// DrainStartedAnnotation is on a Node that the provider drains itself, because no Machine claims the Node and the portal is
	// about to be asked for fewer workers. Its value is the time when the drain started (RFC 3339). The Node is cordoned.
	DrainStartedAnnotation = "infrastructure.cluster.x-k8s.io/drain-started"

	// VolumeDetachStartedAnnotation is on a Node that the provider drains itself and that has no Pods left, but volumes. Its value is the time
	// when the provider began to wait until they are detached (RFC 3339), from which nodeVolumeDetachTimeoutSeconds counts.
	VolumeDetachStartedAnnotation = "infrastructure.cluster.x-k8s.io/volume-detach-started"

	// DrainedAnnotation is on a Node that was drained and waits for the portal to remove it. Its value is the time when the drain
	// ended (RFC 3339). The Node stays cordoned, and no Machine is bound to it, until it is removed or the replicas rise.
	DrainedAnnotation = "infrastructure.cluster.x-k8s.io/drained"

	// DrainRulesAnnotation is on a Node that a Machine gave up. Its value has what the Machine said about the drain of the Node, as
	// JSON: its labels, by which MachineDrainRules select it, its timeouts, and what it was excluded from.
	DrainRulesAnnotation = "infrastructure.cluster.x-k8s.io/drain-rules"

	// BatchAnnotation is on a Node that a scale or an upgrade of the portal made. Its value is the id of that operation. Nodes of one
	// operation join in any order, so their ages do not tell which of them the portal removes first.
	BatchAnnotation = "infrastructure.cluster.x-k8s.io/batch"

	// ScaleDownDisabledAnnotation marks a Node whose annotation cluster-autoscaler.kubernetes.io/scale-down-disabled was set by
	// the provider, which removes both again. An annotation that the user set is left alone.
	ScaleDownDisabledAnnotation = "infrastructure.cluster.x-k8s.io/scale-down-disabled"
)

const (
	// ClusterFinalizer keeps a PortalCluster until its control plane is gone.
	ClusterFinalizer = "portalcluster.infrastructure.cluster.x-k8s.io"

	// ControlPlaneFinalizer keeps a PortalControlPlane until the portal cluster is gone.
	ControlPlaneFinalizer = "portalcontrolplane.infrastructure.cluster.x-k8s.io"

	// MachinePoolFinalizer keeps a PortalMachinePool until its nodes are gone, or belong to no pool any more.
	MachinePoolFinalizer = "portalmachinepool.infrastructure.cluster.x-k8s.io"

	// IdentityFinalizer keeps an identity Secret or a PortalClusterIdentity while a PortalCluster needs it to delete what it created.
	IdentityFinalizer = "infrastructure.cluster.x-k8s.io/portal-identity"
)

// Keys of an identity Secret.
const (
	// IdentityBaseURL is the portal's URL, https only.
	IdentityBaseURL = "baseURL"
	// IdentityEmail is the portal user's e-mail address.
	IdentityEmail = "email"
	// IdentityPassword is the portal user's password.
	IdentityPassword = "password"
	// IdentityCABundle is optional: PEM certificates to verify the portal's certificate with, instead of the system's.
	IdentityCABundle = "caBundle"
	// IdentityTOTPSeed is optional: the base32 seed of the portal user's one-time codes, if MFA is enabled.
	IdentityTOTPSeed = "totpSeed"
	// IdentityAccount is optional: a name for the portal account, the same in the Secrets of all its users. Secrets of one
	// namespace that name the same account share its rate limit.
	IdentityAccount = "account"
	// IdentityRequestsPerMinute is optional: the rate limit of the portal account. If the key is missing, it is
	// that of the standard tier. A limit in the portal's answers takes precedence.
	IdentityRequestsPerMinute = "requestsPerMinute"
	// IdentityCreations is optional: CreationsHeld or CreationsAllowed, which is the default.
	IdentityCreations = "creations"
)

// Values of IdentityCreations.
const (
	// CreationsHeld keeps the provider from creating clusters, networks and VPCs with this identity, until a person allows it. A new
	// management cluster that gets its objects from Git then creates no second portal clusters.
	CreationsHeld = "held"
	// CreationsAllowed lets the provider create clusters, networks and VPCs.
	CreationsAllowed = "allowed"
)
