// SPDX-License-Identifier: Apache-2.0

// Package portalcluster reconciles PortalClusters: where at the portal a Cluster is placed, and under which account.
//
// A PortalCluster is ready when the portal accepts its identity and its VPC and network are known. Then the PortalControlPlane
// creates the portal cluster. The PortalCluster is provisioned when the PortalControlPlane also has a kubeconfig, because Cluster
// API connects to the workload cluster then. The endpoint is in the PortalControlPlane.
//
// The steps, in order (reconciler.go): identity → vpc → network. The creations of a VPC that does not exist and of a network from a CIDR
// change something at the portal. They are operations (package operation), like the creation of a cluster. An interrupted call for a VPC is
// settled by its name. Nothing is created for a portal cluster that exists, for example after a move or a restore: its record has the ids
// of its VPC and network, and names at the portal may have changed since. The portal can neither list nor delete networks, so only a person
// can settle a lost call for one, with spec.network.id.
//
// Deletion waits for the PortalControlPlane, which still needs the identity. Then the identity Secret is released. A network that
// was created, or may have been created, remains at the portal, and an event names it.
//
// A PortalCluster with the annotation cluster.x-k8s.io/managed-by is not touched (Cluster API's contract, externally managed
// infrastructure). The system that manages it writes status.initialization.provisioned, status.vpcID and status.networkID, and
// removes every finalizer when the object is deleted.
package portalcluster
