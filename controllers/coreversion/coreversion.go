// SPDX-License-Identifier: Apache-2.0

// Package coreversion reports whether the Cluster API core manager is of a version whose behaviour was tried. Takeovers
// rest on facts that are no contract (test/facts holds them); beside a core that may behave differently a rolling update
// waits instead.
package coreversion

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=clusterctl.cluster.x-k8s.io,resources=providers,verbs=list

// tried are the minor versions of core with which test/facts passes.
var tried = []string{"1.14"}

const (
	// lookAgain is how long an answer is used: core may be upgraded at any time.
	lookAgain = 10 * time.Minute
	// tryAgain is how long the last answer is used after the inventory could not be read.
	tryAgain = 10 * time.Second
)

// Check reads the version of core from clusterctl's inventory.
type Check struct {
	Reader client.Reader
	// AllowUnverified accepts every version, and no inventory.
	AllowUnverified bool

	mu       sync.Mutex
	next     time.Time // when the inventory is read again
	verified bool
}

// Verified reports whether core is of a version that was tried.
func (c *Check) Verified(ctx context.Context) bool {
	if c.AllowUnverified {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.next) {
		return c.verified
	}
	verified, err := c.look(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Read the version of core from clusterctl's inventory", "takeovers", c.verified)
		c.next = time.Now().Add(tryAgain)
		return c.verified
	}
	c.next, c.verified = time.Now().Add(lookAgain), verified
	return verified
}

func (c *Check) look(ctx context.Context) (bool, error) {
	log := ctrl.LoggerFrom(ctx)
	providers := &clusterctlv1.ProviderList{}
	if err := c.Reader.List(ctx, providers); err != nil {
		return false, err
	}
	for _, p := range providers.Items {
		if p.GetProviderType() != clusterctlv1.CoreProviderType {
			continue
		}
		version, err := semver.ParseTolerant(p.Version)
		if err == nil && slices.Contains(tried, fmt.Sprintf("%d.%d", version.Major, version.Minor)) {
			return true, nil
		}
		log.Info("Takeovers are off: this version of core was not tried", "version", p.Version, "tried", tried)
		return false, nil
	}
	log.Info("Takeovers are off: core is not in clusterctl's inventory, so its version is not known")
	return false, nil
}
