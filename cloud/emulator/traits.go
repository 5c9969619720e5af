// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Traits are behaviors beyond the form of answers (Shapes) that the specification does not exclude, and that portals of one engine have
// together. The zero value of each is the behavior that the package's documentation describes. Each works alone. The profile cloudstack sets
// all of them, and answers in ways that the specification excludes.
type Traits struct {
	// RefusalsByJob has the portal check its rules in the job: what breaks a rule is accepted with 202, and the job fails. Malformed
	// requests, unknown ids and locked clusters are still refused at once.
	RefusalsByJob bool `json:"refusalsByJob,omitempty"`
	// RedundantFails has a scale to the present size, or an upgrade to the present version, end with a failed job and a cluster in Alert.
	RedundantFails bool `json:"redundantFails,omitempty"`

	// UpgradesRestart has each upgrade begin with the first node, also if an earlier one to that version has upgraded it.
	UpgradesRestart bool `json:"upgradesRestart,omitempty"`
	// UpgradesByStep refuses upgrades to the present version, and those that skip a minor version.
	UpgradesByStep bool `json:"upgradesByStep,omitempty"`
	// NodeUpgrade is how long the upgrade of each node takes, instead of a share of Durations.Upgrade.
	NodeUpgrade time.Duration `json:"-"`
	// UpgradeLimit is how long a whole upgrade may take. When it is over, the job fails before the next node.
	UpgradeLimit time.Duration `json:"-"`
	// DrainTime has each scale-down and upgrade drain nodes as Fault.Drain does, for at most that long each.
	DrainTime time.Duration `json:"-"`
	// BarePodsStay has drains fail at once if a Pod has no controller, as kubectl drain does without --force.
	BarePodsStay bool `json:"barePodsStay,omitempty"`

	// ScanInterval is how often the portal compares the machines of each cluster that no job locks with its record. If one does not run
	// (Portal.StopMachine), or fewer exist than the size, the cluster is in Alert. If all run, it is Running again. A failed scale or upgrade
	// leads to Alert, too.
	ScanInterval time.Duration `json:"-"`
	// KubeconfigOnce has the portal store the first kubeconfig of a cluster, and return it even when its credentials have expired.
	KubeconfigOnce bool `json:"kubeconfigOnce,omitempty"`

	// LimitsAllNodes has MaxWorkers bound the sum of control nodes and workers.
	LimitsAllNodes bool `json:"limitsAllNodes,omitempty"`
	// TripleZones are the zones in which a cluster may have three control nodes. Elsewhere it has one. Empty allows 1 to 7 in any zone.
	TripleZones []string `json:"tripleZones,omitempty"`
	// SmallOfferings are service offerings with less CPU or memory than a version of Kubernetes needs. No cluster is made of them.
	SmallOfferings []string `json:"smallOfferings,omitempty"`
	// NetworksForOne refuses a network that another cluster uses.
	NetworksForOne bool `json:"networksForOne,omitempty"`
	// ShortNames refuses names that are longer than 40 characters, or do not begin with a letter.
	ShortNames bool `json:"shortNames,omitempty"`
	// UniqueNames has the portal find a name that another cluster of the account has only while it works: it answers 500, late.
	UniqueNames bool `json:"uniqueNames,omitempty"`
	// NamesReserved is for how long the name of a deleted cluster is refused.
	NamesReserved time.Duration `json:"-"`

	// DeletionsCollected is how long after a failed job of a deletion the portal finishes the deletion nevertheless. The cluster stays in
	// Deleting until then. 0 has the cluster return to its state.
	DeletionsCollected time.Duration `json:"-"`
	// DeletedClusters is how deleted clusters answer. Default: 404 once the job has ended.
	DeletedClusters DeletedClusters `json:"deletedClusters,omitempty"`
	// RemainsFor is how long the machines of a deleted cluster stay, with its volumes and its place in the network.
	RemainsFor time.Duration `json:"-"`
}

// DeletedClusters is how clusters answer that are deleted, or being deleted.
type DeletedClusters string

// The ways in which deleted clusters answer.
const (
	DeletedHidden   DeletedClusters = "hidden"   // 404 as soon as the deletion is accepted
	DeletedReadable DeletedClusters = "readable" // reads are answered with 200 while something of the cluster is left (RemainsFor)
)

var deletedClusters = []DeletedClusters{DeletedHidden, DeletedReadable}

// duplicateTime is how long the portal takes to find that a name is in use (Traits.UniqueNames).
const duplicateTime = 45 * time.Second

// maxShortName is the length of the longest name with Traits.ShortNames.
const maxShortName = 40

// errRedundant is the error of a job that was to change nothing (Traits.RedundantFails).
var errRedundant = &jobError{Code: CodeOperationNotAllowed, Message: "the cluster has this size and version already"}

func (t *Traits) validate(zones, offerings []string) error {
	least := min(t.NodeUpgrade, t.UpgradeLimit, t.DrainTime, t.ScanInterval, t.NamesReserved, t.DeletionsCollected, t.RemainsFor)
	switch {
	case least < 0:
		return fmt.Errorf("trait: a time of %s cannot be", least)
	case t.DeletedClusters == DeletedReadable && t.RemainsFor == 0:
		return errors.New("trait deletedClusters: clusters can be readable only for as long as remainsFor says")
	}
	for _, zone := range t.TripleZones {
		if len(zones) > 0 && !slices.Contains(zones, zone) {
			return fmt.Errorf("trait tripleZones: there is no zone %q, only %q", zone, zones)
		}
	}
	for _, offering := range t.SmallOfferings {
		if len(offerings) > 0 && !slices.Contains(offerings, offering) {
			return fmt.Errorf("trait smallOfferings: there is no service offering %q, only %q", offering, offerings)
		}
	}
	return known("trait deletedClusters", t.DeletedClusters, deletedClusters)
}
