// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// staleVersion answers as the API server did in the pass before, unless that pass put another question. The answer does not change before
// the upgrade has ended.
type staleVersion struct {
	f                 *fixture
	question, version string
}

func (v *staleVersion) answer(question string) (last string) {
	if v.question == question {
		last = v.version
	}
	v.question, v.version = question, before
	if v.f.portal.Clusters()[0].State != emulator.ClusterUpgrading {
		v.f.nodes.mu.Lock()
		defer v.f.nodes.mu.Unlock()
		v.version = v.f.nodes.version
	}
	return last
}

// TestUpgradeIsSentOnce upgrades a cluster with passes at different intervals. In every pass the API server's answer is as old as
// the interval, up to half a minute. If the pass that sees the end of the upgrade compared an answer from before the end with
// spec.version, it would send the upgrade again, and the portal would replace every node a second time. Nor does an outage during the upgrade
// have this effect, whether polls of the job wait for their answers or get none.
func TestUpgradeIsSentOnce(t *testing.T) {
	poll := emulator.Fault{Method: "GET", Path: "/jobs/*"}
	late, cut := poll, poll
	late.Delay, cut.Cut, cut.For = 10*time.Second, true, 10*time.Second
	for title, outage := range map[string]*emulator.Fault{"": nil, ", late answers": &late, ", no answers": &cut} {
		for _, every := range []time.Duration{time.Second, 6 * time.Second, 11 * time.Second, 29 * time.Second} {
			t.Run(every.String()+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute})
					f.connected = true
					f.workloads.version = (&staleVersion{f: f}).answer
					if outage != nil {
						f.strike(*outage)
					}
					f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
					s := f.passes(5*time.Minute, every)
					if !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) || s.Record.Version != after || !f.allRun(after) {
						t.Errorf("not upgraded: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
					}
					if answers := f.answers("upgrade"); len(answers) != 1 {
						t.Errorf("%d requests for one upgrade: %v", len(answers), answers)
					}
				})
			})
		}
	}
}
