// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRotate: a cluster in the books gets another kubeconfig, with another host if its endpoint moves.
func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		c := login(t, p)
		id := c.create(c.newCluster(1))
		config := func() string { return c.get("/kubernetes-clusters/" + id + "/config").want(200).text("kubeconfig") }
		first := config()
		if config() != first {
			t.Error("it changes by itself")
		}
		host := id + ".portal.invalid"
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Credentials: true}); err != nil {
			t.Fatal(err)
		}
		second := config()
		if second == first || !strings.Contains(second, host) {
			t.Error("the credentials are the old ones, or the host is not")
		}
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Endpoint: true}); err != nil {
			t.Fatal(err)
		}
		if third := config(); strings.Contains(third, host) {
			t.Error("the endpoint did not move")
		}
		journal := p.Journal()
		if e := journal[len(journal)-2]; e.To != "rotated" || e.Detail != "endpoint" || e.ID != id {
			t.Errorf("the journal says %+v", e)
		}
		for cluster, what := range map[string]emulator.Rotation{id: {}, "none": {Endpoint: true}} {
			if err := p.Rotate(t.Context(), cluster, what); err == nil {
				t.Errorf("rotated %q of %s", what, cluster)
			}
		}
	})
}

// TestRotateNeedsWorkloads: clusters of others may not be able to.
func TestRotateNeedsWorkloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{Workloads: &ledger{}})
		c := login(t, p)
		id := c.create(c.newCluster(1))
		if err := p.Rotate(t.Context(), id, emulator.Rotation{Endpoint: true}); err == nil || !strings.Contains(err.Error(), "cannot") {
			t.Error(err)
		}
	})
}

// TestKubeconfigLifetime: each kubeconfig has a token of its own, which says when it expires.
func TestKubeconfigLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := &ledger{}
		p := newPortal(t, emulator.Options{KubeconfigLifetime: time.Hour})
		c := login(t, p)
		id := c.create(c.newCluster(1))
		path := "/kubernetes-clusters/" + id + "/config"
		if a, b := c.get(path).want(200).text("kubeconfig"), c.get(path).want(200).text("kubeconfig"); a == b || strings.Count(a, ".") < 4 {
			t.Error("two requests got the same token, or one that is no JWT")
		}
		p = newPortal(t, emulator.Options{KubeconfigLifetime: time.Hour, ControlMarks: emulator.MarkedTaint, Workloads: work})
		c = login(t, p)
		c.create(c.newCluster(1))
		if w := work.applied[0]; w.KubeconfigLifetime != time.Hour || w.ControlMarks != emulator.MarkedTaint {
			t.Errorf("the clusters are told %s, %q", w.KubeconfigLifetime, w.ControlMarks)
		}
		for _, o := range []emulator.Options{{KubeconfigLifetime: -1}, {ControlMarks: "crown"}} {
			if _, err := emulator.New(o); err == nil {
				t.Errorf("accepted %+v", o)
			}
		}
	})
}
