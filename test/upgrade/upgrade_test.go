// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// quiet is how long the test watches the new manager while the portal's jobs do not progress. The manager reconciles every object within
// the first seconds.
const quiet = 45 * time.Second

// TestUpgrade checks that this release replaces the previous one while clusters are in every phase.
func TestUpgrade(t *testing.T) {
	lives := map[string]*life{}
	for _, p := range phases() {
		lives[p.name] = &life{phase: p}
	}
	together(t, "enter", lives, (*life).enter)
	if t.Failed() {
		return
	}
	together(t, "snapshot", lives, (*life).snapshot)
	if *record != "" {
		together(t, "record", lives, (*life).record)
	}

	g := NewWithT(t)
	before := changes()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	g.Expect(box.UpgradeProvider(ctx, root)).To(Succeed())
	g.Consistently(changes, quiet, time.Second).Should(Equal(before), "requests that change something at the portal")
	together(t, "unchanged", lives, (*life).unchanged)

	together(t, "leave", lives, (*life).leave)
	for _, e := range box.Portal.Violations() {
		// After a creation with an unknown result, the provider asks the portal once for a list of clusters, in case it supports that.
		g.Expect(e.Method+" "+e.Path).To(Equal("GET /kubernetes-clusters"), "violation of the portal's specification: %s", e)
	}
}

// together runs do for all lives concurrently.
func together(t *testing.T, what string, lives map[string]*life, do func(*life)) {
	t.Run(what, func(t *testing.T) {
		for called, l := range lives {
			t.Run(called, func(t *testing.T) {
				t.Parallel()
				l.Fixture = &suite.Fixture{T: t, WithT: suite.Patient(t), Box: box, Namespace: "phase-" + l.name, User: l.user(), ClusterName: name}
				t.Cleanup(l.Explain)
				do(l)
			})
		}
	})
}

// changes returns how many requests of all accounts change something.
func changes() (count int) {
	for _, e := range box.Portal.RequestLog() {
		if e.IsChange() {
			count++
		}
	}
	return count
}
