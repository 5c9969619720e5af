// SPDX-License-Identifier: Apache-2.0

// Package portalcontrolplane reconciles PortalControlPlanes. Each of them is one managed Kubernetes cluster at the portal. Every change
// to a portal cluster is made here, one operation at a time, so there is only one writer and nothing to coordinate.
//
// Its inputs are spec.version, the replicas of the Cluster's MachineDeployments, whose sum is the number of workers, and the Nodes of the
// workload cluster. Its outputs are create, upgrade, scale and delete requests, and the binding of Machines to Nodes.
//
// A pass (reconciler.go) reads everything it needs into a scope (scope.go), then runs six steps. Each of these files has one step, in this
// order:
//
//	cluster.go      creates the portal cluster once, or adopts the one that spec.clusterID names
//	operation.go    polls the operation in flight (package operation). No new one starts before it has ended, and the steps below
//	                decide from the Nodes that they read after its end
//	kubeconfig.go   keeps the kubeconfig Secret, and the endpoint in spec (endpoint.go). The kubeconfig is renewed before it expires
//	                (credentials.go) and when the API server does not accept it
//	connection.go   connects to the API server (package workload), and reads its version and its worker Nodes (recognize.go)
//	version.go      upgrades the portal cluster to spec.version. If the portal sets providerIDs, core first pauses the MachinePool
//	                (poolpause.go)
//	workers.go      binds Machines to Nodes (package claims decides, moves.go writes), and scales the portal cluster to the sum of the
//	                replicas (scale.go)
//
// The first step uses these files:
//
//	owner.go        makes sure that no other PortalControlPlane owns the portal cluster. Otherwise this one changes nothing
//	gone.go         notices that the portal does not know the cluster any more
//	restored.go     finds the portal cluster of a copied object, such as a restored backup, so that no second one is created
//
// Before the steps, members.go reads the MachineDeployments, MachineSets, Machines and MachinePools of the Cluster, and corrects the owner
// references of MachineSets and Machines after a restore. If the object is being deleted, the pass runs these files instead of the steps:
//
//	intent.go       decides whether the deletion is intended, or has to be confirmed by a person
//	delete.go       deletes the portal cluster
//
// A step returns an outcome (package outcome) and never waits. Only status.go turns outcomes into conditions. What the manager remembers of
// a portal cluster from one pass to the next is in memory.go, without a lock, because passes of one object never overlap.
//
// The states of a portal cluster, as this package sees them, and what can interrupt them:
//
//	nothing ─▶ named ─▶ creating ─▶ running ⇄ upgrading │ scaling ─▶ deleting ─▶ gone
//
//	named       the name is in spec, so a person can find the cluster at the portal in every later state
//	creating    a crash between the request and its answer ends in a held operation, never in a second cluster
//	upgrading,
//	scaling     a lost answer counts as running until the nodes show that it is done (settleUpgrade, scaleReached), or until the
//	            portal accepts or refuses the next request. A person can abandon the operation
//	deleting    possible from every state. It waits for a running operation, unless that is a stuck or lost scale or upgrade. While
//	            the Cluster or the control plane is being deleted, nothing is scaled, and the hooks on Machines are removed at once
//	gone        a 404 counts only under the portal user that created the cluster. If the deletion was not requested here, a person
//	            may set the id of another cluster, which leads back to running
package portalcontrolplane
