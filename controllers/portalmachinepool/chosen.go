// SPDX-License-Identifier: Apache-2.0

package portalmachinepool

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownerref"
)

// Kind of the objects that this package reconciles.
const Kind = "PortalMachinePool"

// Chosen returns the MachinePool of a Cluster that gets the nodes which no Machine claims, or nil. It must be backed by a
// PortalMachinePool. One whose list names nodes is preferred, then the oldest. Moving or restoring objects changes their age.
func Chosen(pools []clusterv1.MachinePool) *clusterv1.MachinePool {
	ours := slices.DeleteFunc(slices.Clone(pools), func(mp clusterv1.MachinePool) bool {
		return mp.Spec.Template.Spec.InfrastructureRef.Kind != Kind
	})
	if len(ours) == 0 {
		return nil
	}
	oldest := slices.MinFunc(ours, func(a, b clusterv1.MachinePool) int {
		return cmp.Or(rank(a)-rank(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return &oldest
}

// rank is 0 for a MachinePool that names nodes. Core copies the list of the PortalMachinePool into it.
func rank(mp clusterv1.MachinePool) int {
	if len(mp.Spec.ProviderIDList) > 0 {
		return 0
	}
	return 1
}

// Stale reports whether an owner reference of the MachinePool, or of its PortalMachinePool, has an old UID of the present owner.
// If the MachinePool is being deleted, the garbage collector may then have deleted it. Core corrects the reference of a
// MachinePool even while it is being deleted, but not that of its PortalMachinePool.
func Stale(mp *clusterv1.MachinePool, pool *infrav1.PortalMachinePool, cluster *clusterv1.Cluster) bool {
	if ownerref.Stale(mp, cluster) {
		return true
	}
	if pool == nil {
		return false
	}
	reference := metav1.GetControllerOf(pool)
	return reference != nil && reference.Kind == "MachinePool" && reference.Name == mp.Name && reference.UID != mp.UID
}
