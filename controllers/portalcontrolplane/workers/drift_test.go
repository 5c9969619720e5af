// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// present are the worker nodes that exist. All of them count.
func present(uids ...string) func(*scene) {
	return func(s *scene) {
		s.plan = claims.Plan{Counted: len(uids)}
		for _, uid := range uids {
			s.plan.Present = append(s.plan.Present, claims.Node{NodeID: claims.NodeID{Name: "node-" + uid, UID: uid}})
		}
	}
}

// drifting is a cluster whose size is 3, whose nodes others change.
type drifting struct {
	*testing.T
	*scene
	store  client.Client
	known  Memory
	counts int // how often the workers were counted
}

func newDrifting(t *testing.T, uids ...string) *drifting {
	t.Helper()
	d := &drifting{T: t, scene: passed(present(uids...))}
	d.ControlPlane.Namespace, d.ControlPlane.Name = prod.Namespace, prod.Name
	d.State.Put(d.ControlPlane)
	d.store = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(d.ControlPlane).Build()
	d.Writer = persist.Writer{Client: d.store, Live: d.store}
	return d
}

// pass notices a difference.
func (d *drifting) pass() (outcome.Outcome, bool) {
	d.Helper()
	o, differs := d.known.reconcileDrift(d.Context(), &d.Pass, d.plan)
	if o.Kind == outcome.Failed {
		d.Fatal(o.Err)
	}
	if o.Kind == outcome.Retry {
		d.counts++
		if !d.Record.SizeUncertain || d.Record.Size != d.plan.Counted {
			d.Errorf("counted as %+v, want %d", d.Record, d.plan.Counted)
		}
	}
	return o, differs
}

// wait takes passes for a time, a second apart.
func (d *drifting) wait(total time.Duration) {
	d.Helper()
	for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(time.Second) {
		d.pass()
	}
}

// restore asks the portal for the size, which succeeds, and shows these nodes.
func (d *drifting) restore(uids ...string) {
	d.Last = operation.New(operation.Scale, "3")
	d.Last.From, d.Last.Before, d.Last.Result = d.Record.Size, claims.Snapshot(d.plan.Present), operation.Succeeded
	d.Record.Size, d.Record.SizeUncertain = 3, false
	d.State.Put(d.ControlPlane)
	present(uids...)(d.scene)
}

// TestReconcileDrift checks that the workers are counted when the nodes differ from the size for two minutes.
func TestReconcileDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t, "1", "2")
		for _, after := range []time.Duration{0, time.Second, 2*time.Minute - 2*time.Second} {
			time.Sleep(after)
			o, differs := d.pass()
			if !differs || o.Kind != outcome.Wait || o.Reason != infrav1.NodesDifferReason {
				t.Errorf("it differs: %+v", o)
			}
			if again := time.Now().Add(o.RequeueAfter); o.RequeueAfter <= 0 || again.Sub(time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC)) > 2*time.Second {
				t.Errorf("looks again after %s", o.RequeueAfter)
			}
		}
		if d.counts > 0 {
			t.Error("counted too soon")
		}
		time.Sleep(time.Second)
		if d.pass(); d.counts != 1 {
			t.Error("not counted after the time")
		}
		stored := newDrifting(t)
		if err := d.store.Get(t.Context(), prod, stored.ControlPlane); err != nil {
			t.Fatal(err)
		}
		if record := stateOf(stored.ControlPlane).Record; record.Size != 2 || !record.SizeUncertain || record.Version != "v1.36.3" {
			t.Errorf("stored: %+v", record)
		}
		if o, differs := d.pass(); differs {
			t.Errorf("after that the size is uncertain, and nothing differs from it: %+v", o)
		}
	})
}

// TestDriftInterrupted checks that the time starts again when the nodes change, and when they were right in between.
func TestDriftInterrupted(t *testing.T) {
	for title, interrupt := range map[string]func(*scene){
		"another node is missing":   present("1", "3"),
		"another one is missing":    present("1"),
		"as many as the size":       present("1", "2", "3"),
		"an operation ran":          inFlight(operation.Operation{Type: operation.Upgrade}),
		"the size became uncertain": func(s *scene) { s.Record.SizeUncertain = true },
		"the size became unknown":   func(s *scene) { s.Record.Size = operation.SizeUnknown },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrifting(t, "1", "2")
				d.wait(driftTimeout)
				before := *d.scene
				interrupt(d.scene)
				d.pass()
				before.State = operation.State{Record: operation.Record{Size: 3}}
				*d.scene = before
				d.wait(driftTimeout)
				if d.counts > 0 {
					t.Error("counted although it was interrupted")
				}
				if d.pass(); d.counts != 1 {
					t.Error("not counted after the time")
				}
			})
		})
	}
}

// TestDriftOnce checks that the workers are counted once for each set of nodes. If the portal's answer makes no difference, a
// condition reports that, and nothing is asked again. Another set is counted again.
func TestDriftOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t, "1", "2")
		d.wait(driftTimeout + time.Second)
		d.restore("1", "2")
		d.wait(time.Hour)
		o, differs := d.pass()
		if d.counts != 1 || !differs || o.Kind != outcome.Wait || o.Reason != infrav1.NodesDifferReason || o.RequeueAfter != 0 {
			t.Errorf("counted %d times; %+v", d.counts, o)
		}
		present("1", "9")(d.scene)
		d.wait(driftTimeout + time.Second)
		if d.counts != 2 {
			t.Errorf("counted %d times for two sets", d.counts)
		}
		d.restore("1", "9", "8")
		if o, differs := d.pass(); differs {
			t.Errorf("restored, and differs: %+v", o)
		}
	})
}

// TestDriftRightAfterAScale: the portal has finished a scale, and the nodes do not show it yet. The message claims neither that the
// number was to be restored nor, before the time, that the scale was without effect.
func TestDriftRightAfterAScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t, "1", "2")
		d.Record.Size = 2
		d.pass()
		d.restore("1", "2")
		for _, test := range []struct {
			after time.Duration
			says  string
		}{{time.Second, "finished the scale from 2 to 3 workers, and nodes may still join"}, {driftTimeout, "which changed no nodes"}} {
			time.Sleep(test.after)
			o, differs := d.pass()
			if !differs || o.Reason != infrav1.NodesDifferReason || !strings.Contains(o.Message, test.says) || strings.Contains(o.Message, "restore") {
				t.Errorf("after %s: %+v", test.after, o)
			}
			if last := test.after == driftTimeout; (o.RequeueAfter == 0) != last {
				t.Errorf("looks again after %s", o.RequeueAfter)
			}
		}
		if d.counts > 0 {
			t.Error("the workers were counted")
		}
	})
}

// TestDriftOfSurplus: the portal has finished a scale-down, and still runs all instances. The message does not look for missing ones.
func TestDriftOfSurplus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t, "1", "2", "3", "4")
		d.restore("1", "2", "3", "4")
		d.wait(driftTimeout + time.Second)
		o, differs := d.pass()
		if !differs || !strings.Contains(o.Message, "4 worker nodes exist, but the portal was asked for 3") || !strings.Contains(o.Message, "raise the replicas") ||
			strings.Contains(o.Message, "missing") {
			t.Errorf("%+v", o)
		}
	})
}
