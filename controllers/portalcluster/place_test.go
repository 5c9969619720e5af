// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// withControlPlane makes the Cluster of the bench name a PortalControlPlane, which it returns.
func (b *bench) withControlPlane() *infrav1.PortalControlPlane {
	b.Helper()
	cluster := &clusterv1.Cluster{}
	b.must(b.store.Get(b.Context(), key, cluster))
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalControlPlane", Name: "cp"}
	b.must(b.store.Update(b.Context(), cluster))
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "cp"}}
	b.must(b.store.Create(b.Context(), controlPlane))
	return controlPlane
}

// correct changes the spec, as the API server stores it.
func (b *bench) correct(change func(*infrav1.PortalClusterSpec)) {
	b.Helper()
	b.change(func(c *infrav1.PortalCluster) {
		change(&c.Spec)
		c.Generation++
	})
}

// TestCorrectedTooLate corrects the place while the request for the cluster is, or may be, on its way. Status shows where the cluster was asked for.
// When the request has failed, the next one must ask for the corrected place.
func TestCorrectedTooLate(t *testing.T) {
	b := newBench(t, nil)
	cp := b.withControlPlane()
	cp.Annotations = map[string]string{infrav1.OperationAnnotation: "{"} // unreadable: there may be a cluster
	b.must(b.store.Update(t.Context(), cp))
	b.reconcile(3)
	b.correct(func(spec *infrav1.PortalClusterSpec) {
		spec.ZoneID, spec.VPC = "elsewhere", infrav1.PortalVPC{ID: "another"}
	})
	b.reconcile(2)
	if zone := b.get().Status.ZoneID; zone != "z" {
		t.Errorf("the cluster that may exist moved to %q", zone)
	}
	op := operation.New(operation.Create, "a-1")
	op.Record = &operation.Record{ZoneID: "z", VPCID: "first", NetworkID: "of-first"}
	asked := operation.State{Last: op}
	here, corrected := [3]string{"z", "first", "of-first"}, [3]string{"", "another", ""}
	for _, step := range []struct {
		operation.State
		want [3]string // zone, VPC and network
	}{
		{operation.State{}, corrected},
		{asked, here}, {asked.After(operation.Event{Result: operation.Failed}), corrected},
		{asked, here}, {asked.After(operation.Event{Result: operation.Succeeded, CreatedID: "cluster-1"}), here},
	} {
		step.Put(cp)
		cp.Spec.ClusterID = step.Record.ClusterID
		b.must(b.store.Update(t.Context(), cp))
		b.reconcile(2)
		if s := b.get().Status; [3]string{s.ZoneID, s.VPCID, s.NetworkID} != step.want {
			t.Errorf("after %+v in %q, %q, %q, want %q", step.Last, s.ZoneID, s.VPCID, s.NetworkID, step.want)
		}
	}
}

// TestPlaceIsNotFoundYet has the portal refuse to tell of its VPCs for a while after a creation has failed. What has to be found again is not
// ready: a creation would be asked for without it.
func TestPlaceIsNotFoundYet(t *testing.T) {
	b := newBench(t, nil)
	cp := b.withControlPlane()
	b.reconcile(3)
	found := b.get().Status.VPCID
	op := operation.New(operation.Create, "a-1")
	op.Record = &operation.Record{ZoneID: "z", VPCID: found}
	for _, state := range []operation.State{{Last: op}, operation.State{Last: op}.After(operation.Event{Result: operation.Failed})} {
		b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
		state.Put(cp)
		b.must(b.store.Update(t.Context(), cp))
		if state.Op() == nil {
			b.r.Answers = outcome.NewAnswers()
			b.must(b.portal.Inject(emulator.Fault{Path: "/vpcs", Status: http.StatusTooManyRequests, RetryAfter: time.Hour, Count: 1}))
		}
		b.reconcile(1)
	}
	if id := b.get().Status.VPCID; id == "" {
		b.says(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependencyReason, "have to be found again")
	} else {
		t.Errorf("VPC %q", id)
	}
}

// TestCorrectedVPC names another VPC after one was found. The id of the first must not be used any more, not even while the other is missing, which one
// Warning reports.
func TestCorrectedVPC(t *testing.T) {
	b := newBench(t, nil)
	b.withControlPlane()
	b.reconcile(3)
	found := b.get().Status.VPCID
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC.Name = "missing" })
	b.reconcile(3)
	b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, infrav1.RefusedReason, `0 VPCs of the portal account are named "missing"`)
	if c := b.get(); found == "" || c.Status.VPCID != "" || c.Status.ObservedGeneration != c.Generation {
		t.Errorf("VPC %q, then %+v", found, c.Status)
	}
	if got := b.events(); strings.Count(got, "Warning "+infrav1.RefusedReason) != 1 {
		t.Errorf("events: %s", got)
	}
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC.Name = "default" })
	b.reconcile(3)
	if id := b.get().Status.VPCID; id != found {
		t.Errorf("VPC %q, want %q", id, found)
	}
}

// TestCorrectedNetwork puts a CIDR in place of the id of a network. The network is created, although status has an id.
func TestCorrectedNetwork(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{ID: "misspelt"})
	b.withControlPlane()
	b.reconcile(3)
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.Network = &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"} })
	b.reconcile(4)
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	networks := b.portal.Networks()
	if len(networks) != 1 || b.get().Status.NetworkID != networks[0].ID {
		t.Errorf("network %s of %+v", b.get().Status.NetworkID, networks)
	}
	// The API server refuses this, unless the poll of the network's job was refused in between.
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.Network.CIDR = "10.2.0.0/24" })
	b.reconcile(3)
	b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, infrav1.RefusedReason, "was created from 10.1.0.0/24")
	if b.get().Status.NetworkID != networks[0].ID {
		t.Error("the CIDR could be corrected, although the network exists")
	}
}

// TestPlaceOfAClusterThatExists moves or restores the objects of a portal cluster, which drops their status. At the portal, the VPC has
// another name by now. The object is ready with the place in the control plane's record, and nothing is created.
func TestPlaceOfAClusterThatExists(t *testing.T) {
	for title, test := range map[string]struct {
		operation.Record
		want [2]string // VPC and network
	}{
		"recorded": {operation.Record{ClusterID: "cluster-1", ZoneID: "z", VPCID: "vpc-first", NetworkID: "net-first", Size: 3},
			[2]string{"vpc-first", "net-first"}},
		"adopted": {operation.Record{ClusterID: "cluster-1", TakenOver: true, Size: operation.SizeUnknown}, [2]string{}},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
			cp := b.withControlPlane()
			cp.Spec.ClusterID = test.ClusterID
			operation.State{Record: test.Record}.Put(cp)
			b.must(b.store.Update(t.Context(), cp))
			b.correct(func(spec *infrav1.PortalClusterSpec) {
				spec.VPC = infrav1.PortalVPC{Name: "renamed", Create: ptr.To(true)}
			})
			b.reconcile(5)
			b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
			if got := b.get().Status; got.ZoneID != "z" || [2]string{got.VPCID, got.NetworkID} != test.want {
				t.Errorf("zone %s, VPC %q, network %q, want %v", got.ZoneID, got.VPCID, got.NetworkID, test.want)
			}
			if vpcs, networks := b.calls("POST", "/vpcs"), b.calls("POST", "/networks"); vpcs+networks > 0 {
				t.Errorf("the portal was asked for %d VPCs and %d networks", vpcs, networks)
			}
		})
	}
}
