// SPDX-License-Identifier: Apache-2.0

// Package portalcontrolplane reconciles PortalControlPlanes: one managed Kubernetes cluster at the portal each. Whatever
// changes a portal cluster happens here, one operation at a time, so there is one writer and nothing to coordinate.
//
// What comes in: spec.version; the replicas of the Cluster's MachineDeployments, whose sum is the number of workers; and
// the Nodes of the workload cluster. What goes out: create, upgrade, scale, delete; and which Machine holds which Node.
//
// A pass (reconciler.go) reads all it needs into a scope (scope.go), then runs a list of steps, each in its file:
//
//	cluster.go      the portal cluster exists: create it once, or adopt the one that spec.clusterID names
//	owner.go        no other PortalControlPlane owns it, or this one changes nothing
//	gone.go         the portal still knows it
//	restored.go     a copy of an object, such as a restored backup, finds its portal cluster instead of creating another one
//	kubeconfig.go   its kubeconfig is in a Secret, its endpoint in spec (endpoint.go). It is renewed before it expires
//	                (credentials.go) and when the API server does not accept it (access.go)
//	connection.go   its API server answers, and its version and its worker Nodes (recognize.go) are known
//	operation.go    the operation in flight is polled (package operation); nothing new starts before it has ended
//	version.go      it runs spec.version, else upgrade
//	poolpause.go    core has paused the MachinePool, if the portal sets providerIDs, before an upgrade
//	workers.go      Machines hold Nodes (package claims decides, moves.go carries out); the number of workers is the sum
//	                of the replicas, else scale (scale.go)
//	intent.go       whether a deletion is meant, or held for a person
//	members.go      MachineSets and Machines name their present owners, also after a restore
//	delete.go       and, when it is to go, it is gone
//
// A step returns an outcome (package outcome) and never waits. status.go alone turns outcomes into conditions.
//
// The states of a portal cluster, as this package sees them, and what can interrupt them:
//
//	nothing ─▶ named ─▶ creating ─▶ running ⇄ upgrading │ scaling ─▶ deleting ─▶ gone
//
//	named       the name is in spec, so a person can find the cluster whatever happens next
//	creating    a crash between the request and its answer ends in a held operation, never in a second cluster
//	upgrading,
//	scaling     a lost answer counts as running until the nodes show that it is done (settleUpgrade, scaleReached), or until the
//	            portal accepts or refuses the next request. A person can abandon the operation
//	deleting    possible from every state; waits for a job that runs, unless that is a stuck scale or upgrade. While the Cluster or the
//	            control plane is being deleted nothing is scaled, and the hooks on Machines go at once
//	gone        a 404 counts only under the portal user that created the cluster. If the deletion was not asked for here, a
//	            person may set the id of another cluster, which leads back to running
package portalcontrolplane
