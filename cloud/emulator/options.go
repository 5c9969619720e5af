// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// Options describe one portal. The zero value works: one Administrator with a generated password, three Kubernetes
// versions, one VPC called "default", the documented limits, durations that suit a demonstration, and no faults.
type Options struct {
	// Users may log in. Default: one Administrator, DefaultEmail, in DefaultAccount.
	Users []User
	// Versions of Kubernetes on offer, any order. Default: DefaultVersions.
	Versions []Version
	// VPCs that exist from the start. Default: one named "default" in every account. An empty, non-nil list means none.
	VPCs []VPC
	// Volumes there are from the start.
	Volumes []Volume
	// VolumesPerCluster is how many volumes each new cluster gets, as if its workloads had claimed them.
	VolumesPerCluster int

	// Zones, ServiceOfferings and SSHKeyPairs there are. An empty list accepts any value: the specification has no
	// endpoint that lists them. The commands have DefaultZones, DefaultServiceOfferings and DefaultSSHKeyPairs.
	Zones, ServiceOfferings, SSHKeyPairs []string

	// Workloads runs the clusters. Nil: they are records of the portal only.
	Workloads Workloads
	// Durations of the asynchronous operations.
	Durations Durations

	// VictimOrder decides which workers a scale-down removes, until Portal.SetVictimOrder changes it. Default: VictimsNewest.
	VictimOrder VictimOrder
	// UpgradeStyle decides what an upgrade does to a node. Default: UpgradeInPlace.
	UpgradeStyle UpgradeStyle
	// ControlMarks is how control nodes are distinguished from workers. Default: MarkedBoth.
	ControlMarks ControlMarks
	// KubeconfigLifetime is how long the credentials in a kubeconfig are valid. Each request for it gets new ones then. Those handed out
	// before stay valid until they expire. Default: a year, and always the same.
	KubeconfigLifetime time.Duration
	// ProviderIDs gives nodes a providerID, portal:///<zone>/<instance>.
	ProviderIDs bool
	// ReuseNodeNames gives a new worker the lowest free number of its cluster, so that names come back after a
	// scale-down, instead of a random suffix that never does.
	ReuseNodeNames bool

	// MinWorkers and MaxWorkers bound a cluster's size. Default: 0 and 50 (specification, Limits).
	MinWorkers, MaxWorkers int
	// MaxClusters per account. 0 is no quota.
	MaxClusters int
	// RateLimit of each account. Default: 300 per minute, burst 50 (specification, Limits).
	RateLimit RateLimit
	// TokenLifetime of a full-access token. Default: 8 hours (specification, Authentication 7).
	TokenLifetime time.Duration
	// ClockSkew is how far the portal's clock is ahead of this machine's. It affects tokens and rate limit headers.
	ClockSkew time.Duration

	// BasePath precedes every path, as /api/v1 in https://host/api/v1. Default: none.
	BasePath string
	// Hosts are further names and addresses in the listener's certificate.
	Hosts []string
	// HTTP1 keeps the listener from offering HTTP/2, where a cut connection is only a reset stream.
	HTTP1 bool
	// ListClusters answers GET /kubernetes-clusters?name=, which the specification does not know. Default: 405.
	ListClusters bool
	// Shapes of answers that the specification leaves open.
	Shapes Shapes
	// Traits are further behaviors that the specification leaves open.
	Traits Traits
	// Faults that are injected from the start.
	Faults []Fault

	// Seed of all randomness but secrets. Default: random. Portal.Seed returns it.
	Seed int64
	// RequestLogTo receives the request log as text, line by line as it is written.
	RequestLogTo io.Writer
	// RequestLogSize is how many entries of the request log are kept at least, so that a portal that runs for days does not use more and more
	// memory. 0 keeps all.
	RequestLogSize int
}

// Durations are the shortest times of operations. Real workload clusters may add to them. Zero means the default, a
// negative duration none at all.
type Durations struct {
	Pending time.Duration // before any job runs. Default 1 s
	Create  time.Duration // of a cluster. Default 8 s
	Scale   time.Duration // Default 5 s
	Upgrade time.Duration // of a whole cluster, spread evenly over its nodes. Default 10 s
	Delete  time.Duration // of a cluster. Default 5 s
	VPC     time.Duration // Default 3 s
	Network time.Duration // if networks are created by a job (Shapes.NetworkStatus). Default 2 s
	// Spread is the part of its time by which a job takes more or less, at random from Options.Seed. 0.2 is up to a fifth.
	Spread float64
}

// RateLimit of one account across all its users and endpoints (specification, Limits).
type RateLimit struct {
	PerMinute int // requests that come back each minute. Default 300
	Burst     int // requests that may be made at once. Default 50
}

// DefaultZones are the zones of the commands' portals.
func DefaultZones() []string { return []string{"zone-1"} }

// DefaultServiceOfferings are the service offerings of the commands' portals.
func DefaultServiceOfferings() []string {
	return []string{"small", "medium", "large", "offering-2-4", "offering-4-16", "offering-8-32"}
}

// DefaultSSHKeyPairs are the SSH key pairs of the commands' portals.
func DefaultSSHKeyPairs() []string { return []string{"mine", "ops", "sandbox"} }

func (o *Options) setDefaults() {
	if len(o.Users) == 0 {
		o.Users = []User{{Email: DefaultEmail, Role: RoleAdministrator}}
	}
	if len(o.Versions) == 0 {
		o.Versions = DefaultVersions()
	}
	orElse(&o.VictimOrder, VictimsNewest)
	orElse(&o.UpgradeStyle, UpgradeInPlace)
	orElse(&o.ControlMarks, MarkedBoth)
	orElse(&o.MaxWorkers, 50)
	orElse(&o.RateLimit.PerMinute, 300)
	orElse(&o.RateLimit.Burst, 50)
	orElse(&o.TokenLifetime, 8*time.Hour)
	orElse(&o.Durations.Pending, time.Second)
	orElse(&o.Durations.Create, 8*time.Second)
	orElse(&o.Durations.Scale, 5*time.Second)
	orElse(&o.Durations.Upgrade, 10*time.Second)
	orElse(&o.Durations.Delete, 5*time.Second)
	orElse(&o.Durations.VPC, 3*time.Second)
	orElse(&o.Durations.Network, 2*time.Second)
	o.Shapes.setDefaults()
}

// validate refuses option values that would only show up later.
func (o *Options) validate() error {
	switch {
	case !slices.Contains(victimOrders, o.VictimOrder):
		return fmt.Errorf("victim order %q: want one of %v", o.VictimOrder, victimOrders)
	case !slices.Contains(upgradeStyles, o.UpgradeStyle):
		return fmt.Errorf("upgrade style %q: want one of %v", o.UpgradeStyle, upgradeStyles)
	case !slices.Contains(controlMarks, o.ControlMarks):
		return fmt.Errorf("marks of control nodes %q: want one of %v", o.ControlMarks, controlMarks)
	case o.KubeconfigLifetime < 0:
		return fmt.Errorf("lifetime of kubeconfigs: %s", o.KubeconfigLifetime)
	case o.MinWorkers < 0 || o.MaxWorkers < o.MinWorkers:
		return fmt.Errorf("workers of a cluster: from %d to %d", o.MinWorkers, o.MaxWorkers)
	case min(o.RateLimit.PerMinute, o.RateLimit.Burst) < 1 || max(o.RateLimit.PerMinute, o.RateLimit.Burst) > maxRate:
		return fmt.Errorf("rate limit %d per minute, burst %d: want 1 to %d", o.RateLimit.PerMinute, o.RateLimit.Burst, maxRate)
	case o.TokenLifetime < 0:
		return fmt.Errorf("lifetime of tokens: %s", o.TokenLifetime)
	case min(o.MaxClusters, o.VolumesPerCluster, o.RequestLogSize) < 0:
		return fmt.Errorf("%d clusters of an account, %d volumes of a cluster, %d entries of the request log: none can be negative",
			o.MaxClusters, o.VolumesPerCluster, o.RequestLogSize)
	case !basePath.MatchString(o.BasePath):
		return fmt.Errorf("base path %q: want a path such as /api/v1", o.BasePath)
	}
	return errors.Join(o.Shapes.validate(), o.Traits.validate(o.Zones, o.ServiceOfferings))
}

// maxRate bounds the rate limit and its burst. The time between two requests is rounded to nanoseconds, and a larger burst at one request a
// minute would last longer than a time.Duration can.
const maxRate = 100_000_000

// basePath is empty, or segments that need no escaping in a URL.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*/?$`)

// Check returns the error that New would return, without a portal.
func (o Options) Check() error {
	o.Workloads, o.RequestLogTo = nil, nil
	p, err := New(o)
	if err == nil {
		p.Close()
	}
	return err
}

// orElse sets what was left at its zero value.
func orElse[T comparable](value *T, fallback T) {
	if *value == *new(T) {
		*value = fallback
	}
}
