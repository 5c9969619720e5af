// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the kinds of the portal provider for Cluster API's v1beta2 contract:
//
//	PortalCluster           InfraCluster    account, zone, VPC and network of a Cluster
//	PortalControlPlane      ControlPlane    the portal cluster itself: create, upgrade, scale, kubeconfig, delete
//	PortalMachineTemplate   InfraMachineTemplate   what the workers of a MachineDeployment are made of
//	PortalMachine           InfraMachine    one claim on one worker node of the portal cluster
//	PortalMachinePool       InfraMachinePool   the pool of those worker nodes that no Machine claims
//	PortalClusterIdentity   of the provider's own, cluster-scoped   a portal account that several namespaces share
//
// and what ClusterClasses need beside them:
//
//	PortalClusterTemplate           InfraClusterTemplate      what the PortalClusters of a ClusterClass share
//	PortalControlPlaneTemplate      ControlPlaneTemplate      what its PortalControlPlanes share
//	PortalMachinePoolTemplate       InfraMachinePoolTemplate  what its PortalMachinePools share
//	PortalBootstrapConfig           BootstrapConfig           nothing: the portal bootstraps its nodes
//	PortalBootstrapConfigTemplate   BootstrapConfigTemplate   nothing either
//
// What a user can get wrong is refused by CEL rules here, at the earliest point. What only the portal can know is a
// condition (conditions.go). `clusterctl move` and most backups drop status, so what could not be found again lives in
// spec or in the annotations of annotations.go.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
