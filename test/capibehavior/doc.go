// SPDX-License-Identifier: Apache-2.0

// Package capibehavior tests the behavior of Cluster API on which package claims depends. Claims on worker nodes work
// because core's controllers behave in certain ways when Machines are created and deleted. This behavior is internal to core
// and not part of any contract, so a new version may change it without notice. Each test of this package states one such fact
// and checks it with the real core manager. An update of Cluster API that changes a fact fails here first, with its name.
//
// No controller of this provider runs. The test takes its part, and writes PortalClusters, PortalControlPlanes and
// PortalMachines as our controllers do. It also takes the part of the kubelets. The management cluster, where no controller acts on
// Nodes, is the workload cluster of all Clusters too, so a Node changes only when the test or core changes it.
//
// To check that something does not happen, a test does not wait for a while. It causes an event that can only come
// after it, and then looks at everything that a watch saw until then (history).
//
// The comment of each fact names the functions of sigs.k8s.io/cluster-api v1.14.2 on which it rests. Their files are below
// core/reconcilers unless the comment says otherwise. Look there first if a fact fails.
package capibehavior
