// SPDX-License-Identifier: Apache-2.0

// Package topologies makes Clusters with a topology, and their MachineDeployments, for tests.
package topologies

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// With is a Cluster whose topology has so many MachineDeployments, named a, b, c… A negative number means nil replicas.
func With(replicas ...int32) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	cluster.Spec.Topology.ClassRef.Name = "portal"
	for i, n := range replicas {
		md := clusterv1.MachineDeploymentTopology{Name: string(rune('a' + i)), Replicas: &n}
		if n < 0 {
			md.Replicas = nil
		}
		cluster.Spec.Topology.Workers.MachineDeployments = append(cluster.Spec.Topology.Workers.MachineDeployments, md)
	}
	return cluster
}

// DeploymentOf is the MachineDeployment that the topology controller made for this name of the topology.
func DeploymentOf(topologyName string) clusterv1.MachineDeployment {
	return clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-" + topologyName + "-x7k2p", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: topologyName},
	}}
}
