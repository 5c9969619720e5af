// SPDX-License-Identifier: Apache-2.0

// Package capibehavior ties what package claims believes of Cluster API to Cluster API itself. Claims on worker nodes work
// because core's controllers behave in certain ways when Machines come and go. Those ways are internals of core, not
// part of any contract: a new version may change them without a word. So each is stated here as a test against the real
// core manager, and a bump of Cluster API that changes one fails here first, with the name of the fact.
//
// Nothing of this provider runs. The test plays it: it writes PortalClusters, PortalControlPlanes and PortalMachines
// as our controllers would. It also plays the kubelets: workload clusters are one kube-apiserver with nothing around
// it, so a Node is exactly what the test says, and changes only when the test or core changes it.
//
// A statement that something does not happen is judged by what a watch saw (history), up to an event that could only
// come after it; not by looking for a while.
//
// The comment of each fact names the functions of sigs.k8s.io/cluster-api that it rests on, below core/reconcilers
// unless said otherwise, as of v1.14.2: that is where to look when a fact fails.
package capibehavior
