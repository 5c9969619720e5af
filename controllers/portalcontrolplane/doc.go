// SPDX-License-Identifier: Apache-2.0

// Package portalcontrolplane reconciles PortalControlPlanes. Each of them is one managed Kubernetes cluster at the portal. Every change
// to a portal cluster is made here, one operation at a time, so there is only one writer and nothing to coordinate.
//
// Its inputs are spec.version, the replicas of the Cluster's MachineDeployments, whose sum is the number of workers, and the Nodes of the
// workload cluster. Its outputs are create, upgrade, scale and delete requests, and the binding of Machines to Nodes.
//
// A pass (reconciler.go) reads the members of the Cluster (package workers) into its scope, then runs six steps (steps.go). The steps ask the
// rooms, in this order:
//
//	reconcileCluster     creates the portal cluster once, or adopts the one that spec.clusterID names (lifecycle, ownership)
//	reconcileOperation   polls the operation in flight (lifecycle). No new one starts before it has ended, and the steps below decide
//	                     from the Nodes that they read after its end
//	reconcileKubeconfig  keeps the kubeconfig Secret and the endpoint in spec (access)
//	reconcileConnection  reads the version of the API server, and the Nodes (access, workers)
//	reconcileVersion     upgrades the portal cluster to spec.version (lifecycle). If the portal sets providerIDs, core first pauses the
//	                     MachinePool (workers)
//	reconcileWorkers     binds Machines to Nodes, and scales the portal cluster to the sum of the replicas (workers)
//
// If the object is being deleted, the pass runs delete.go instead of the steps: it decides whether the deletion is intended (ownership), lets
// go of Machines and Nodes (workers), and deletes the portal cluster (lifecycle).
//
// Who does it: pass.Pass is what every step reads and how it writes, and scope adds what the steps leave for each other. Each room has one type
// with its clients: lifecycle.Clusters, ownership.Owners, access.Kubeconfigs, workers.Keeper. An operation.Runner sends and follows the one
// operation of a pass. An identity.Resolver makes the portal's client.
//
// A step returns an outcome (package outcome) and never waits. Only status.go turns outcomes into conditions. What the manager remembers of
// a portal cluster from one pass to the next has no lock, because passes of one object never overlap.
package portalcontrolplane
