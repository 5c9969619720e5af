// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRotate checks that a rotation gives a cluster without a workload another kubeconfig, with another host if its endpoint moves.
func TestRotate(t *testing.T) {
	bubble(t, emulator.Options{}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		config := func() string { return c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig") }
		rotate := func(what emulator.Rotation) string {
			t.Helper()
			must(t, p.Rotate(t.Context(), id, what))
			return config()
		}
		first, host := config(), id+".portal.invalid"
		if config() != first {
			t.Error("the kubeconfig changes without a rotation")
		}
		if second := rotate(emulator.Rotation{Credentials: true}); second == first || !strings.Contains(second, host) {
			t.Error("want new credentials and the old host")
		}
		if third := rotate(emulator.Rotation{Endpoint: true}); strings.Contains(third, host) {
			t.Error("the endpoint did not move")
		}
		entries := p.RequestLog()
		if e := entries[len(entries)-2]; e.To != "rotated" || e.Detail != "endpoint" || e.ID != id {
			t.Errorf("the request log has %+v", e)
		}
		if p.Rotate(t.Context(), id, emulator.Rotation{}) == nil {
			t.Error("rotated nothing")
		}
	})
}

// TestWorkloadOptions checks that the Workloads get the lifetime of kubeconfigs and the marks of control nodes, and need not rotate.
func TestWorkloadOptions(t *testing.T) {
	work := &ledger{}
	opts := emulator.Options{KubeconfigLifetime: time.Hour, ControlMarks: emulator.MarkedTaint, Workloads: work}
	bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		if w := work.applied[0]; w.KubeconfigLifetime != time.Hour || w.ControlMarks != emulator.MarkedTaint {
			t.Errorf("the Workloads get lifetime %s and control marks %q", w.KubeconfigLifetime, w.ControlMarks)
		}
		c.get("/kubernetes-clusters/"+id+"/config").want(200).has("kubeconfig of "+id, "kubeconfig")
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Endpoint: true}); err == nil {
			t.Error("rotated although the Workloads cannot")
		}
	})
}
