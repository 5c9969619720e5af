// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClassRefusesVariables checks that core's webhook refuses a Cluster with a value that the class's schema does not allow. Core looks at the
// schema only after it has reconciled the class.
func TestClassRefusesVariables(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.Create(f.class)
	for _, o := range f.others {
		f.Create(o)
	}
	long, err := json.Marshal(strings.Repeat("x", 257))
	f.Expect(err).NotTo(HaveOccurred())
	variables := f.cluster.Spec.Topology.Variables
	zone := slices.IndexFunc(variables, func(v clusterv1.ClusterVariable) bool { return v.Name == "zoneID" })
	variables[zone].Value.Raw = long
	f.Eventually(func() error { return box.Client.Create(t.Context(), f.cluster.DeepCopy(), client.DryRunAll) }).Should(
		MatchError(ContainSubstring("spec.topology.variables[zoneID]")))
}
