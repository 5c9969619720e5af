// SPDX-License-Identifier: Apache-2.0

// Package profile describes portals as data: a YAML file holds what a legal portal may choose, from its tier to the
// shapes of its answers. Some profiles ship with the emulator, under a name.
package profile

import (
	"embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

//go:embed shipped/*.yaml
var shipped embed.FS

// Profile is a portal as data. What it leaves out keeps its default (emulator.Options). Users, workload clusters and
// addresses are no part of it.
type Profile struct {
	// Description says in a sentence what is special about the portal.
	Description string `json:"description"`

	RateLimit RateLimit `json:"rateLimit,omitzero"`
	Durations Durations `json:"durations,omitzero"`

	Versions          []Version `json:"versions,omitempty"`
	VPCs              []string  `json:"vpcs,omitempty"`
	VolumesPerCluster int       `json:"volumesPerCluster,omitempty"`
	Zones             []string  `json:"zones,omitempty"`
	ServiceOfferings  []string  `json:"serviceOfferings,omitempty"`
	SSHKeyPairs       []string  `json:"sshKeyPairs,omitempty"`
	MinWorkers        int       `json:"minWorkers,omitempty"`
	MaxWorkers        int       `json:"maxWorkers,omitempty"`
	MaxClusters       int       `json:"maxClusters,omitempty"`
	VictimOrder       string    `json:"victimOrder,omitempty"`
	UpgradeStyle      string    `json:"upgradeStyle,omitempty"`
	ControlMarks      string    `json:"controlMarks,omitempty"`
	ProviderIDs       bool      `json:"providerIDs,omitempty"`
	ReuseNodeNames    bool      `json:"reuseNodeNames,omitempty"`
	TokenLifetime     Duration  `json:"tokenLifetime,omitempty"`
	ClockSkew         Duration  `json:"clockSkew,omitempty"`

	KubeconfigLifetime Duration `json:"kubeconfigLifetime,omitempty"`

	BasePath     string           `json:"basePath,omitempty"`
	ListClusters bool             `json:"listClusters,omitempty"`
	Shapes       emulator.Shapes  `json:"shapes,omitzero"`
	Traits       Traits           `json:"traits,omitzero"`
	Faults       []emulator.Fault `json:"faults,omitempty"`
}

// RateLimit of an account.
type RateLimit struct {
	PerMinute int `json:"perMinute,omitempty"`
	Burst     int `json:"burst,omitempty"`
}

// Version of Kubernetes on offer.
type Version struct {
	SemanticVersion string `json:"semanticVersion"`
	State           string `json:"state,omitempty"`
	Refused         bool   `json:"refused,omitempty"` // it is listed, and nothing can be created with it
}

// Durations of jobs, as emulator.Durations. A negative one means none at all.
type Durations struct {
	Pending Duration `json:"pending,omitempty"`
	Create  Duration `json:"create,omitempty"`
	Scale   Duration `json:"scale,omitempty"`
	Upgrade Duration `json:"upgrade,omitempty"`
	Delete  Duration `json:"delete,omitempty"`
	VPC     Duration `json:"vpc,omitempty"`
	Network Duration `json:"network,omitempty"`
}

// Traits are emulator.Traits, with its times.
type Traits struct {
	emulator.Traits

	NodeUpgrade        Duration `json:"nodeUpgrade,omitempty"`
	UpgradeLimit       Duration `json:"upgradeLimit,omitempty"`
	DrainTime          Duration `json:"drainTime,omitempty"`
	ScanInterval       Duration `json:"scanInterval,omitempty"`
	NamesReserved      Duration `json:"namesReserved,omitempty"`
	DeletionsCollected Duration `json:"deletionsCollected,omitempty"`
	RemainsFor         Duration `json:"remainsFor,omitempty"`
}

// Duration is written as 1m30s.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Names of the profiles that ship.
func Names() []string {
	entries, err := shipped.ReadDir("shipped")
	if err != nil {
		panic(err) // they are compiled in
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Load reads a profile: one that ships, by its name, or a YAML file.
func Load(nameOrFile string) (Profile, error) {
	var content []byte
	var err error
	if slices.Contains(Names(), nameOrFile) {
		content, err = shipped.ReadFile(path.Join("shipped", nameOrFile+".yaml"))
	} else {
		content, err = os.ReadFile(nameOrFile)
	}
	if os.IsNotExist(err) {
		return Profile{}, fmt.Errorf("profile %s is neither a file nor one of %s", nameOrFile, strings.Join(Names(), ", "))
	}
	if err != nil {
		return Profile{}, err
	}
	var p Profile
	if err := yaml.UnmarshalStrict(content, &p); err != nil {
		return Profile{}, fmt.Errorf("profile %s: %w", nameOrFile, err)
	}
	return p, nil
}

// Apply sets what the profile says, and leaves the rest of the options as it is.
func (p Profile) Apply(o *emulator.Options) {
	o.RateLimit = emulator.RateLimit(p.RateLimit)
	o.Durations = p.Durations.options()
	for _, v := range p.Versions {
		o.Versions = append(o.Versions, emulator.Version{SemanticVersion: v.SemanticVersion, State: v.State, Refused: v.Refused})
	}
	for _, name := range p.VPCs {
		o.VPCs = append(o.VPCs, emulator.VPC{Name: name})
	}
	o.VolumesPerCluster = p.VolumesPerCluster
	o.Zones, o.ServiceOfferings, o.SSHKeyPairs = p.Zones, p.ServiceOfferings, p.SSHKeyPairs
	o.MinWorkers, o.MaxWorkers, o.MaxClusters = p.MinWorkers, p.MaxWorkers, p.MaxClusters
	o.VictimOrder, o.UpgradeStyle = emulator.VictimOrder(p.VictimOrder), emulator.UpgradeStyle(p.UpgradeStyle)
	o.ControlMarks, o.KubeconfigLifetime = emulator.ControlMarks(p.ControlMarks), time.Duration(p.KubeconfigLifetime)
	o.ProviderIDs, o.ReuseNodeNames = p.ProviderIDs, p.ReuseNodeNames
	o.TokenLifetime, o.ClockSkew = time.Duration(p.TokenLifetime), time.Duration(p.ClockSkew)
	o.BasePath, o.ListClusters = p.BasePath, p.ListClusters
	o.Shapes, o.Traits = p.Shapes, p.Traits.options()
	o.Faults = append(o.Faults, p.Faults...)
}

func (d Durations) options() emulator.Durations {
	return emulator.Durations{
		Pending: time.Duration(d.Pending), Create: time.Duration(d.Create), Scale: time.Duration(d.Scale),
		Upgrade: time.Duration(d.Upgrade), Delete: time.Duration(d.Delete), VPC: time.Duration(d.VPC), Network: time.Duration(d.Network),
	}
}

func (t Traits) options() emulator.Traits {
	out := t.Traits
	out.NodeUpgrade, out.UpgradeLimit, out.DrainTime = time.Duration(t.NodeUpgrade), time.Duration(t.UpgradeLimit), time.Duration(t.DrainTime)
	out.ScanInterval, out.NamesReserved = time.Duration(t.ScanInterval), time.Duration(t.NamesReserved)
	out.DeletionsCollected, out.RemainsFor = time.Duration(t.DeletionsCollected), time.Duration(t.RemainsFor)
	return out
}
