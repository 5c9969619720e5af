// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the kinds of the portal provider for Cluster API's v1beta2 contract:
//
//	PortalCluster           InfraCluster           account, zone, VPC and network of a Cluster
//	PortalControlPlane      ControlPlane           the portal cluster itself: create, upgrade, scale, kubeconfig, delete
//	PortalMachineTemplate   InfraMachineTemplate   what the portal creates the workers of a MachineDeployment from
//	PortalMachine           InfraMachine           a claim on one worker node of the portal cluster
//	PortalMachinePool       InfraMachinePool       the pool of the worker nodes that no Machine claims
//	PortalClusterIdentity   (not in the contract)  a portal account that several namespaces share, cluster-scoped
//
// ClusterClasses also need:
//
//	PortalClusterTemplate           InfraClusterTemplate      what the PortalClusters of a ClusterClass share
//	PortalControlPlaneTemplate      ControlPlaneTemplate      what its PortalControlPlanes share
//	PortalMachinePoolTemplate       InfraMachinePoolTemplate  what its PortalMachinePools share
//	PortalBootstrapConfig           BootstrapConfig           empty, because the portal bootstraps its nodes
//	PortalBootstrapConfigTemplate   BootstrapConfigTemplate   empty too
//
// CEL rules refuse a user's mistakes at the API server, as early as possible. Mistakes that only the portal can notice are
// reported as conditions (conditions.go). `clusterctl move` and most backups drop status, so facts that cannot be read back
// from the portal or from Kubernetes are in spec or in annotations (annotations.go).
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
