// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRotate checks that a rotation gives a cluster without a workload another kubeconfig, with another host if its endpoint moves. It needs
// Workloads that can rotate.
func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		c := login(t, p)
		id := c.create(c.newCluster(1))
		config := func() string { return c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig") }
		first := config()
		if config() != first {
			t.Error("the kubeconfig changes without a rotation")
		}
		host := id + ".portal.invalid"
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Credentials: true}); err != nil {
			t.Fatal(err)
		}
		second := config()
		if second == first || !strings.Contains(second, host) {
			t.Error("want new credentials and the old host")
		}
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Endpoint: true}); err != nil {
			t.Fatal(err)
		}
		if third := config(); strings.Contains(third, host) {
			t.Error("the endpoint did not move")
		}
		entries := p.RequestLog()
		if e := entries[len(entries)-2]; e.To != "rotated" || e.Detail != "endpoint" || e.ID != id {
			t.Errorf("the request log has %+v", e)
		}
		for cluster, what := range map[string]emulator.Rotation{id: {}, "none": {Endpoint: true}} {
			if err := p.Rotate(t.Context(), cluster, what); err == nil {
				t.Errorf("rotated %q of %s", what, cluster)
			}
		}
		p = newPortal(t, emulator.Options{Workloads: &ledger{}})
		c = login(t, p)
		if err := p.Rotate(t.Context(), c.create(c.newCluster(1)), emulator.Rotation{Endpoint: true}); err == nil {
			t.Error("rotated although the Workloads cannot")
		}
	})
}

// TestWorkloadOptions checks that the Workloads get the lifetime of kubeconfigs and the marks of control nodes.
func TestWorkloadOptions(t *testing.T) {
	work := &ledger{}
	opts := emulator.Options{KubeconfigLifetime: time.Hour, ControlMarks: emulator.MarkedTaint, Workloads: work}
	bubble(t, opts, func(t *testing.T, _ *emulator.Portal, c *caller) {
		c.create(c.newCluster(1))
		if w := work.applied[0]; w.KubeconfigLifetime != time.Hour || w.ControlMarks != emulator.MarkedTaint {
			t.Errorf("the Workloads get lifetime %s and control marks %q", w.KubeconfigLifetime, w.ControlMarks)
		}
	})
}
