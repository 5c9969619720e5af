// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"cmp"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Kind of the objects that this package reconciles.
const Kind = "PortalMachinePool"

// Chosen returns the MachinePool of a Cluster that has the nodes which no Machine claims: the oldest that is backed by a PortalMachinePool,
// or nil.
func Chosen(pools []clusterv1.MachinePool) *clusterv1.MachinePool {
	ours := slices.DeleteFunc(slices.Clone(pools), func(mp clusterv1.MachinePool) bool {
		return mp.Spec.Template.Spec.InfrastructureRef.Kind != Kind
	})
	if len(ours) == 0 {
		return nil
	}
	oldest := slices.MinFunc(ours, func(a, b clusterv1.MachinePool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return &oldest
}
