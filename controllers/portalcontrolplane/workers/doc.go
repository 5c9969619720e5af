// SPDX-License-Identifier: Apache-2.0

// Package workers keeps the workers of a portal cluster as the replicas ask: each Machine is bound to a worker node, and the portal is
// asked for as many workers as the replicas add up to.
//
// A pass makes these values, each in one place:
//
//	Members   the objects that ask for workers, and the Machines' claims on nodes (members.go)
//	Nodes     the Nodes of the workload cluster, workers and others (recognize.go)
//	Desired   how many workers the members ask for (desired.go), and with how many a paused one counts (paused.go)
//	decision  the plan of package claims, with what it was made from (workers.go)
//
// Keeper.Reconcile (workers.go) makes the decision and carries it out: writes.go and nodes.go write objects, failures.go leaves out what
// relies on a write that failed, scale.go asks the portal, outcome.go reports what is waited for. Release leaves the objects of a Cluster that
// is being deleted as they would be without a provider.
package workers
