// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestTidy checks that no cluster of any check is left at the end, whether the checks passed or failed, or that the report names the
// clusters that a person must delete. A failed creation is not tried again.
func TestTidy(t *testing.T) {
	twoIDs := func(x *exchange) {
		if result, ok := x.object()["result"].(map[string]any); ok {
			id := at(result, "kubernetesCluster", "id")
			x.object()["result"] = map[string]any{"a": map[string]any{"id": id}, "b": map[string]any{"id": "other"}}
		}
	}
	for name, test := range map[string]struct {
		change   func(*emulator.Options)
		tell     func(*exchange)
		reported bool // the report names something that is left
	}{
		"as it should be": {},
		"no id, and the portal lists clusters": {change: func(o *emulator.Options) {
			o.ListClusters = true
			o.Faults = []emulator.Fault{{Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobWithoutID}}
		}},
		"no id": {reported: true, change: func(o *emulator.Options) {
			o.Faults = []emulator.Fault{{Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobWithoutID}}
		}},
		"two ids": {tell: onSuccess("GET", "/jobs/", twoIDs)},
		"creations fail half way": {change: func(o *emulator.Options) {
			o.ListClusters = true
			o.Faults = []emulator.Fault{{Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobFailsLate}}
		}},
		"deletion is refused": {reported: true, change: func(o *emulator.Options) {
			o.Faults = []emulator.Fault{{Method: "DELETE", Path: "/kubernetes-clusters/*", Code: emulator.CodeOperationNotAllowed}}
		}},
		"deletion is busy for a while": {change: func(o *emulator.Options) {
			o.Faults = []emulator.Fault{{Method: "DELETE", Path: "/kubernetes-clusters/*", Code: emulator.CodeResourceBusy, Count: 10}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emulated(t, func(o *emulator.Options) {
					if test.change != nil {
						test.change(o)
					}
				})
				if test.tell != nil {
					s.via = &spoiled{next: s.via, base: s.URL, b: &broken{tell: test.tell}, seen: &memory{answers: map[string]exchange{}}}
				}
				for _, c := range checks() {
					if strings.HasPrefix(c.name, "jobs/") || strings.HasPrefix(c.name, "endpoints/") {
						s.try(c.run)
					}
				}
				posted := 0
				for _, e := range s.books.RequestLog() {
					if e.Method == http.MethodPost && e.Route == "/kubernetes-clusters" && e.Status == http.StatusAccepted {
						posted++
					}
				}
				left := s.tidy()
				reported := strings.Contains(strings.Join(left, "\n"), "cluster conformance-")
				if clusters := s.books.Clusters(); (len(clusters) > 0) != test.reported || reported != test.reported {
					t.Errorf("%d clusters are left, and the suite reports %q", len(clusters), left)
				}
				if name != "as it should be" && name != "deletion is busy for a while" && posted > 2 {
					t.Errorf("%d creations", posted)
				}
				time.Sleep(time.Hour) // until all jobs have ended
			})
		})
	}
}

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
