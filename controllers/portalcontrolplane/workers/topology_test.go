// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capportal/cluster-api-provider-portal/test/topologies"
)

// TestTopologyOf checks which MachineDeployments and MachinePools of a topology count until they exist.
func TestTopologyOf(t *testing.T) {
	alone := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}} // not of the topology, although its name is
	pooled := topologies.With(2, 3)
	pooled.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Name: "pool", Replicas: ptr.To[int32](4)}}
	made := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterTopologyMachinePoolNameLabel: "pool"}}}
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		members Members
		want    Awaited
	}{
		"no topology":         {&clusterv1.Cluster{}, Members{deployments: []clusterv1.MachineDeployment{alone}}, Awaited{}},
		"none exists":         {pooled, Members{deployments: []clusterv1.MachineDeployment{alone}}, Awaited{Names: []string{"a", "b", "pool"}, Replicas: 9}},
		"one exists":          {pooled, Members{deployments: []clusterv1.MachineDeployment{topologies.DeploymentOf("a")}}, Awaited{Names: []string{"b", "pool"}, Replicas: 7}},
		"the pool exists":     {pooled, Members{pools: []clusterv1.MachinePool{made}}, Awaited{Names: []string{"a", "b"}, Replicas: 5}},
		"no replicas are one": {topologies.With(-1, 0), Members{}, Awaited{Names: []string{"a", "b"}, Replicas: 1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			made, got := TopologyOf(test.cluster, test.members)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if title == "one exists" && (len(made) != 1 || made[0].Name != topologies.DeploymentOf("a").Name) {
				t.Errorf("made: %v", made)
			}
		})
	}
}

func TestFirstSize(t *testing.T) {
	tests := map[string]struct {
		d    Desired
		want int
	}{
		"the MachineDeployments are there":              {Desired{sum: 3}, 3},
		"one is awaited":                                {Desired{sum: 3, Awaited: Awaited{Replicas: 2}}, 5},
		"none wanted, the portal insists on one":        {Desired{sum: 1, stays: 1}, 1},
		"the portal insists on one, and that will come": {Desired{sum: 1, stays: 1, Awaited: Awaited{Replicas: 2}}, 2},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := test.d.FirstSize(); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
