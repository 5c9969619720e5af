// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestSpread checks that the durations of jobs vary within the given part of their time.
func TestSpread(t *testing.T) {
	options := emulator.Options{Durations: emulator.Durations{Pending: -1, VPC: 100 * time.Second, Spread: 0.2}}
	bubble(t, options, func(t *testing.T, p *emulator.Portal, c *caller) {
		for i := range 40 {
			c.post("/vpcs", fmt.Sprintf(`{"name":"vpc-%d"}`, i)).want(202)
		}
		least, most := time.Hour, time.Duration(0)
		for _, job := range p.Jobs() {
			takes := job.Due.Sub(job.Accepted)
			least, most = min(least, takes), max(most, takes)
		}
		if least < 80*time.Second || least > 90*time.Second || most < 110*time.Second || most > 120*time.Second {
			t.Errorf("jobs take %v to %v", least, most)
		}
	})
}
