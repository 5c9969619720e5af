// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
)

// pause is what keeps an object from following its replicas. Core does not reconcile a paused object, so it gets no Machine that a new node
// would be for, and no Machine of it is drained before a node goes.
type pause struct {
	by   string // the object with core's annotation, or "" if there is none
	had  int    // how many workers it had, as far as core has noted that
	live int    // how many of its Machines are not being deleted
	// unknown is true if nothing shows how many workers it had. Then it gets no new ones, and keeps those that exist.
	unknown bool
}

// counts is how many workers a paused object counts with: as many as it had, or fewer if Machines were deleted and fewer replicas are asked
// for. A live Machine keeps its node.
func (p pause) counts(asked int) int { return min(p.had, max(p.live, asked)) }

// pauseOfMachine: a Machine that has no node yet has none to keep.
func (all Members) pauseOfMachine(m *clusterv1.Machine) (p pause) {
	if !annotations.HasPaused(m) {
		return p
	}
	p.by = "Machine " + m.Name
	claim := all.portalMachine(m.Spec.InfrastructureRef.Name)
	if m.Status.NodeRef.IsDefined() || claim != nil && claim.Spec.ProviderID != "" && !claims.IsReleased(claim.Spec.ProviderID) {
		p.had, p.live = 1, 1
	}
	return p
}

// pauseOfSet: core counts the Machines in status, which a restored MachineSet has lost.
func (all Members) pauseOfSet(set *clusterv1.MachineSet) (p pause) {
	if annotations.HasPaused(set) {
		p.by = "MachineSet " + set.Name
	}
	for i := range all.Machines {
		if m := &all.Machines[i]; m.DeletionTimestamp.IsZero() && belongsTo(m, "MachineSet", set.Name, set.Spec.Selector) {
			p.live++
		}
	}
	p.had = max(p.live, int(ptr.Deref(set.Status.Replicas, 0)))
	return p
}

// pauseOfDeployment: core notes the replicas of a MachineDeployment on its MachineSets, which have more Machines than that during a roll-out.
// If the MachineDeployment is not paused, but one of its MachineSets is, the others follow their replicas.
func (all Members) pauseOfDeployment(md *clusterv1.MachineDeployment) (p pause) {
	paused, noted := annotations.HasPaused(md), -1
	p.unknown = paused && md.Status.Replicas == nil
	for i := range all.sets {
		set := &all.sets[i]
		if !belongsTo(set, "MachineDeployment", md.Name, md.Spec.Selector) {
			continue
		}
		of, replicas := all.pauseOfSet(set), int(ptr.Deref(set.Spec.Replicas, 0))
		if note, err := strconv.Atoi(set.Annotations[clusterv1.DesiredReplicasAnnotation]); err == nil && replicas > 0 {
			noted = max(noted, note)
		}
		if p.unknown = false; !paused && of.by == "" {
			p.had += replicas
			continue
		}
		p.by, p.had, p.live = of.by, p.had+of.had, p.live+of.live
	}
	if paused {
		p.by = "MachineDeployment " + md.Name
	}
	if paused && noted >= 0 {
		p.had = noted
	}
	return p
}

// pause of the pool. The provider's own pause, during an upgrade, does not count, because the provider goes on with the pool.
func (p *pool) pause() (of pause) {
	if !annotations.HasPaused(&p.machinePool) || pausedByProvider(&p.machinePool) {
		return of
	}
	had := max(p.nodes, int(ptr.Deref(p.machinePool.Status.Replicas, 0)))
	return pause{by: "MachinePool " + p.machinePool.Name, had: had, live: had}
}

// replicas is how many nodes the pool gets.
func (p *pool) replicas() int {
	asked := int(ptr.Deref(p.machinePool.Spec.Replicas, 0))
	if pause := p.pause(); pause.by != "" {
		return pause.counts(asked)
	}
	return asked
}

// belongsTo reports whether the object belongs to its owner of the kind and name, or will when core adopts it.
func belongsTo(obj metav1.Object, kind, name string, selector metav1.LabelSelector) bool {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return owner.Kind == kind && owner.Name == name
	}
	return selects(selector, obj)
}
