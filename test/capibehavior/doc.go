// SPDX-License-Identifier: Apache-2.0

// Package capibehavior tests the behavior of Cluster API on which package claims depends. Claims on worker nodes work
// because core's controllers behave in certain ways when Machines are created and deleted. This behavior is internal to core
// and not part of any contract, so a new version may change it without notice. Each of the facts states one such behavior
// and checks it with the real core. An update of Cluster API that changes a fact fails here first, with its name.
//
// test/world checks the same facts in virtual time with each change. This package checks them on real servers with core's manager, in the night: a
// fact that is true only here shows that the world differs from an API server, a cache or a clock.
//
// No controller of this provider runs. The fact takes its part, and writes PortalClusters, PortalControlPlanes and
// PortalMachines as our controllers do. It also takes the part of the kubelets, and no other controller acts on Nodes.
//
// To check that something does not happen, a fact does not wait for a while. It causes an event that can only come
// after it, and then looks at everything that a watch saw until then (history).
package capibehavior
