// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// newVPCBench has a PortalCluster that asks for the VPC to be created, in front of a portal with the fault.
func newVPCBench(t *testing.T, network *infrav1.PortalNetwork, name string, faults ...emulator.Fault) *bench {
	t.Helper()
	t.Parallel()
	b := newBench(t, network)
	b.withControlPlane()
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC = infrav1.PortalVPC{Name: name, Create: ptr.To(true)} })
	for _, fault := range faults {
		fault.Method, fault.Path = "POST", "/vpcs"
		b.must(b.portal.Inject(fault))
	}
	return b
}

// until reconciles until the condition has the reason. A job of the portal takes 4 s, and is polled every 5 s.
func (b *bench) until(reason string) {
	b.Helper()
	for range 100 {
		b.reconcile(1)
		for _, c := range b.get().Status.Conditions {
			if c.Type == infrav1.NetworkReadyCondition && c.Reason == reason {
				return
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	b.Fatalf("never %s: %+v", reason, b.get().Status.Conditions)
}

// hasOneVPC fails unless the account has one VPC of the name, and the PortalCluster its id, after so many requests for it.
func (b *bench) hasOneVPC(name string, requests int) {
	b.Helper()
	var ids []string
	for _, v := range b.portal.VPCs() {
		if v.Name == name {
			ids = append(ids, v.ID)
		}
	}
	if got := b.calls("POST", "/vpcs"); len(ids) != 1 || b.get().Status.VPCID != ids[0] || got != requests {
		b.Errorf("VPCs %v after %d requests, want %d. The PortalCluster has %q", ids, got, requests, b.get().Status.VPCID)
	}
}

// restart makes the manager forget what it remembers.
func (b *bench) restart() {
	b.r.memories, b.r.Answers = outcome.Memories[memory]{}, outcome.NewAnswers()
}

// ago makes the operation in flight as old, for a manager that remembers nothing.
func (b *bench) ago(age time.Duration) {
	b.Helper()
	b.change(func(c *infrav1.PortalCluster) {
		state, err := operation.Load(c)
		if err != nil {
			b.Fatal(err)
		}
		state.Last.Time = metav1.NewTime(time.Now().Add(-age))
		state.Put(c)
	})
	b.restart()
}

func TestCreateVPC(t *testing.T) {
	t.Run("without the right to", func(t *testing.T) {
		b := newVPCBench(t, nil, "new", emulator.Fault{Status: 403})
		b.until(infrav1.RefusedReason)
		b.reconcile(2) // holding the Secret makes another version of it, which is another attempt
		requests := func() int { return b.calls("GET", "/vpcs") + b.calls("POST", "/vpcs") }
		before := requests()
		b.reconcile(10)
		if got := requests() - before; got > 0 {
			t.Errorf("%d requests in 10 passes", got)
		}
	})
	t.Run("whose answer is lost", func(t *testing.T) {
		b := newVPCBench(t, nil, "new", emulator.Fault{Cut: true, After: true, Count: 1})
		b.until(infrav1.AnswerLostReason)
		time.Sleep(5 * time.Second)
		b.restart() // otherwise the next look is half a minute later
		b.until(infrav1.ReadyReason)
		b.hasOneVPC("new", 1)
		if state, err := operation.Load(b.get()); err != nil || state.Op() != nil {
			t.Errorf("%+v, %v", state.Op(), err)
		}
	})
	t.Run("replaced by one that exists", func(t *testing.T) {
		for name, test := range map[string]struct {
			fault emulator.Fault
			until string
			vpc   func(id string) infrav1.PortalVPC
		}{
			"by its id, while the job runs": {emulator.Fault{Job: emulator.JobStuck}, infrav1.CreatingReason,
				func(id string) infrav1.PortalVPC { return infrav1.PortalVPC{ID: id} }},
			"by its name, after a lost answer": {emulator.Fault{Cut: true}, infrav1.AnswerLostReason,
				func(string) infrav1.PortalVPC { return infrav1.PortalVPC{Name: "default"} }},
		} {
			t.Run(name, func(t *testing.T) {
				b := newVPCBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"}, "new", test.fault)
				b.until(test.until)
				id := b.portal.VPCs()[0].ID
				b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC = test.vpc(id) })
				b.until(infrav1.ReadyReason)
				if got := b.get().Status; got.VPCID != id || got.NetworkID == "" || len(b.portal.Networks()) != 1 {
					t.Errorf("VPC %q, network %q of %v", got.VPCID, got.NetworkID, b.portal.Networks())
				}
			})
		}
	})
	t.Run("whose request is lost", func(t *testing.T) {
		b := newVPCBench(t, nil, "new", emulator.Fault{Cut: true, Count: 1})
		b.until(infrav1.AnswerLostReason)
		b.ago(29 * time.Minute)
		b.reconcile(10)
		b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, infrav1.AnswerLostReason, "until the portal's list of VPCs shows that it is done")
		if n := b.calls("POST", "/vpcs"); n != 1 {
			t.Fatalf("sent again while its job may run: %d requests", n)
		}
		b.ago(31 * time.Minute)
		b.until(infrav1.ReadyReason)
		b.hasOneVPC("new", 2)
	})
}

// TestOneVPCForManyClusters reconciles the PortalClusters of one manifest at the same time, and once more while the VPC is being created, by a
// manager that remembers nothing.
func TestOneVPCForManyClusters(t *testing.T) {
	b := newVPCBench(t, nil, "new")
	keys := []client.ObjectKey{key}
	for _, name := range []string{"b", "c", "d"} {
		other := b.get()
		other.Name, other.UID, other.ResourceVersion = name, types.UID(name), ""
		b.must(b.store.Create(t.Context(), other))
		keys = append(keys, client.ObjectKeyFromObject(other))
	}
	all := func() {
		var group sync.WaitGroup
		for _, k := range keys {
			group.Go(func() {
				for range 4 {
					if _, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: k}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	all()
	b.restart()
	all()
	time.Sleep(10 * time.Second)
	b.restart()
	all()
	b.restart()
	all()
	for _, k := range keys {
		c := &infrav1.PortalCluster{}
		if err := b.store.Get(t.Context(), k, c); err != nil || c.Status.VPCID == "" {
			t.Errorf("%s has no VPC: %v, %+v", k, err, c.Status.Conditions)
		}
	}
	if n := b.calls("POST", "/vpcs"); n != 1 {
		t.Errorf("%d requests for one VPC", n)
	}
}

// TestVPCIsNotCreatedTwice starts a manager, which remembers nothing, while the portal does not list a VPC that was asked for. The objects tell that
// it was. A second VPC of one name would make both useless.
func TestVPCIsNotCreatedTwice(t *testing.T) {
	made := operation.New(operation.CreateVPC, "new")
	running := *made
	made.Result, running.JobID = operation.Succeeded, "job-1"
	for title, test := range map[string]struct {
		own, other *operation.Operation
		says       string
	}{
		"this object has created it":    {made, nil, "does not list it"},
		"another object is creating it": {nil, &running, "Another PortalCluster creates VPC"},
	} {
		t.Run(title, func(t *testing.T) {
			b := newVPCBench(t, nil, "new")
			other := b.get()
			other.Name, other.UID, other.ResourceVersion = "b", "uid-b", ""
			operation.State{Record: operation.Record{Size: operation.SizeUnknown}, Last: test.other}.Put(other)
			b.must(b.store.Create(t.Context(), other))
			b.change(func(c *infrav1.PortalCluster) {
				operation.State{Record: operation.Record{Size: operation.SizeUnknown}, Last: test.own}.Put(c)
			})
			b.restart()
			b.reconcile(5)
			b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, map[bool]string{true: infrav1.WaitingForObjectReason, false: infrav1.CreatingReason}[test.own != nil], test.says)
			if n := b.calls("POST", "/vpcs"); n != 0 {
				t.Errorf("%d requests for another VPC", n)
			}
		})
	}
}
