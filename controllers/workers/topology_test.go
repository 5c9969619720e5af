// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capportal/cluster-api-provider-portal/test/topologies"
)

func TestTopologyOf(t *testing.T) {
	alone := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}} // not of the topology, although its name is
	tests := map[string]struct {
		cluster     *clusterv1.Cluster
		deployments []clusterv1.MachineDeployment
		want        Awaited
	}{
		"no topology":                 {&clusterv1.Cluster{}, []clusterv1.MachineDeployment{alone}, Awaited{}},
		"none is there":               {topologies.With(2, 3), []clusterv1.MachineDeployment{alone}, Awaited{Names: []string{"a", "b"}, Replicas: 5}},
		"one is there":                {topologies.With(2, 3), []clusterv1.MachineDeployment{topologies.DeploymentOf("a")}, Awaited{Names: []string{"b"}, Replicas: 3}},
		"all are there, and one more": {topologies.With(2, 3), []clusterv1.MachineDeployment{topologies.DeploymentOf("b"), topologies.DeploymentOf("a"), topologies.DeploymentOf("c")}, Awaited{}},
		"no replicas are one":         {topologies.With(-1, 0), nil, Awaited{Names: []string{"a", "b"}, Replicas: 1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			made, got := TopologyOf(test.cluster, Members{deployments: test.deployments})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if wanted := len(test.cluster.Spec.Topology.Workers.MachineDeployments); len(made)+len(got.Names) != wanted {
				t.Errorf("%d made and %d awaited, of %d", len(made), len(got.Names), wanted)
			}
		})
	}
}

// TestKeptFor: existing workers are kept for MachineDeployments that do not exist yet, and none are added for them.
func TestKeptFor(t *testing.T) {
	tests := map[string]struct{ awaited, sum, size, want int }{
		"nothing is awaited":                 {0, 2, 5, 0},
		"all are there":                      {3, 2, 5, 3},
		"more are there than anybody wants":  {3, 2, 9, 3},
		"some are there":                     {3, 2, 4, 2},
		"the cluster is yet to grow":         {3, 5, 4, 0},
		"the size is not known":              {3, 2, -1, 0},
		"the first of two has just appeared": {3, 0, 3, 3},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := (&Desired{sum: test.sum, Awaited: Awaited{Replicas: test.awaited}}).kept(test.size); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
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
