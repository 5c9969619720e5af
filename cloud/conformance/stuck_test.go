// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestStuckJob checks when the suite gives a job up: after 30 minutes without progress. An upgrade of 12 nodes that takes 90 minutes is
// healthy, as long as machines come and go.
func TestStuckJob(t *testing.T) {
	for name, test := range map[string]struct {
		style     emulator.UpgradeStyle
		takes     time.Duration
		neverEnds bool
		stuck     bool
	}{
		"slow, with new machines":      {style: emulator.UpgradeSurge, takes: 90 * time.Minute},
		"slow, with the same machines": {style: emulator.UpgradeInPlace, takes: 29 * time.Minute},
		"nothing to see":               {style: emulator.UpgradeInPlace, takes: 90 * time.Minute, stuck: true},
		"no end":                       {style: emulator.UpgradeSurge, takes: time.Minute, neverEnds: true, stuck: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := broken{options: func(o *emulator.Options) { o.UpgradeStyle, o.Durations.Upgrade = test.style, test.takes }}
				var took time.Duration
				failures := b.run(t, check{run: func(p *probe) {
					id := p.newCluster(p.parameters().with("size", 11)).id
					if test.neverEnds {
						p.fault(emulator.Fault{Path: "/kubernetes-clusters/*/upgrade", Job: emulator.JobStuck})
					}
					start := time.Now()
					defer func() { took = time.Since(start) }()
					p.upgrade(id).succeeded()
				}})
				if stuck := strings.Contains(strings.Join(failures, " "), "no progress for 30 minutes"); stuck != test.stuck || len(failures) > 0 != stuck {
					t.Errorf("stuck is %t: %v", stuck, failures)
				}
				if test.stuck && (took < 30*time.Minute || took > 31*time.Minute) {
					t.Errorf("given up after %v", took)
				}
			})
		})
	}
}
