// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

const notFound = "RESOURCE_NOT_FOUND"

// vanish deletes the portal cluster at the portal, as a person would.
func (f *fixture) vanish() {
	f.Helper()
	if _, err := f.cloud.DeleteCluster(f.Context(), f.id); err != nil {
		f.Fatal(err)
	}
	time.Sleep(time.Minute)
}

func (f *fixture) reason(condition string) string {
	return conditions.GetReason(f.controlPlane(), condition)
}

// TestGone: a lost connection shows that the cluster is gone. That is reported once, no other condition waits for anything, and
// the portal is asked at long intervals. If the portal finds the cluster again, everything recovers without a person.
func TestGone(t *testing.T) {
	now := newAPIServer(t, workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.strike(emulator.Fault{ID: "lost", Path: "/kubernetes-clusters/*/config", Code: notFound})
		for range 5 {
			f.connect()
		}
		for condition, want := range map[string]string{
			infrav1.ProvisionedCondition: infrav1.PortalClusterGoneReason, infrav1.AvailableCondition: infrav1.PortalClusterGoneReason,
			infrav1.KubeconfigReadyCondition: infrav1.WaitingForDependencyReason, infrav1.ConnectedCondition: infrav1.WaitingForDependencyReason,
		} {
			if got := f.reason(condition); got != want {
				t.Errorf("%s: %s, want %s", condition, got, want)
			}
		}
		if got := f.events(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning "+infrav1.PortalClusterGoneReason) {
			t.Errorf("events %q", got)
		}
		f.scale(3)
		if o := f.manager.reconcileWorkers(f.Context(), f.connect()); o.Reason != infrav1.WaitingForDependencyReason || len(f.answers("scale")) > 0 {
			t.Errorf("a change of the replicas: %+v, %d requests", o, len(f.answers("scale")))
		}
		before := f.fetches()
		for range 3600 {
			f.connect()
			time.Sleep(time.Second)
		}
		if got := f.fetches() - before; got < 8 || got > 10 {
			t.Errorf("asked %d times in an hour", got)
		}
		f.restart()
		before = f.fetches()
		f.connect()
		if got := f.fetches() - before; got != 1 || len(f.events()) != 0 || f.reason(infrav1.ProvisionedCondition) != infrav1.PortalClusterGoneReason {
			t.Errorf("after a restart the portal was asked %d times", got)
		}
		f.strike(emulator.Fault{ID: "down", Path: "/kubernetes-clusters/*/config", Status: 503})
		f.portal.RemoveFault("lost")
		for _, want := range []string{infrav1.PortalClusterGoneReason, infrav1.ReadyReason} {
			time.Sleep(10 * time.Minute)
			f.connect()
			if got := f.reason(infrav1.ProvisionedCondition); got != want {
				t.Errorf("Provisioned is %s, want %s", got, want)
			}
			f.portal.RemoveFault("down")
		}
	})
}

// TestGoneUnderAnotherUser: a cluster that another portal user does not see may exist.
func TestGoneUnderAnotherUser(t *testing.T) {
	now := newAPIServer(t, workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.change(func(cp *infrav1.PortalControlPlane) {
			record := stateOf(cp).Record
			record.UserID = "somebody-else"
			putRecord(cp, record)
		})
		f.vanish()
		s := f.connect()
		if o := s.outcomes[infrav1.ProvisionedCondition]; o.Reason != infrav1.AccountChangedReason || !strings.Contains(o.Message, "somebody-else") {
			t.Errorf("%+v", o)
		}
		if got := f.events(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning "+infrav1.AccountChangedReason) {
			t.Errorf("events %q", got)
		}
	})
}

// TestGoneSeenByAScale: after a 404 to a scale, the portal is asked whether it knows the cluster at all.
func TestGoneSeenByAScale(t *testing.T) {
	for title, gone := range map[string]bool{"the cluster": true, "something else": false} {
		t.Run(title, func(t *testing.T) {
			now := kubeconfigs.For("server: 'https://192.0.2.1'", "token: "+kubeconfigs.Canary)
			withFixture(t, &now, func(f *fixture) {
				if gone {
					f.vanish()
				} else {
					f.strike(emulator.Fault{Path: "/kubernetes-clusters/*/scale", Code: notFound})
				}
				f.nodes.kubeconfig = func() string { return now }
				f.join(2)
				f.scale(3)
				s := f.pass()
				workers, provisioned := s.outcomes[infrav1.WorkersReadyCondition], s.outcomes[infrav1.ProvisionedCondition]
				if gone && (provisioned.Reason != infrav1.PortalClusterGoneReason || workers.Reason != infrav1.WaitingForDependencyReason) ||
					!gone && (!provisioned.IsDone() || workers.Reason != infrav1.RefusedReason) {
					t.Errorf("Provisioned %+v, WorkersReady %+v", provisioned, workers)
				}
				if got := f.answers("scale"); len(got) != 1 || got[0] != "404" {
					t.Errorf("scale: %q", got)
				}
			})
		})
	}
}

// join adds so many worker Nodes that the portal does not know.
func (f *fixture) join(n int) {
	f.Helper()
	for _, name := range []string{"left-1", "left-2", "left-3"}[:n] {
		f.must(f.nodes.join(f.Context(), emulator.Node{Name: name, ID: name, Version: before}))
	}
}

// TestAdoptsAnother: the record of the old cluster does not apply to the one whose id a person sets. That one is retained unless the person
// says otherwise.
func TestAdoptsAnother(t *testing.T) {
	now := newAPIServer(t, workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.createAnother()
		time.Sleep(time.Minute)
		other := f.portal.Clusters()[1].ID
		f.vanish()
		f.connect()
		last := operation.New(operation.Scale, "2")
		last.Result = operation.Succeeded
		f.change(func(cp *infrav1.PortalControlPlane) {
			put(cp, last)
			cp.Spec.ClusterID = other
		})
		now = kubeconfigs.For("server: 'https://192.0.2.9'", "token: "+kubeconfigs.Canary)
		f.connect() // the claim takes a pass of its own
		f.connect()
		cp := f.controlPlane()
		record := stateOf(cp).Record
		op := stateOf(cp).Last
		if record.ClusterID != other || record.Size != operation.SizeUnknown || record.Version != "" || record.Workers != nil || record.UserID == "" || op != nil {
			t.Errorf("record %+v, operation %+v", record, op)
		}
		if cp.Spec.ControlPlaneEndpoint.Host != "192.0.2.9" || !f.storedIs(now) || f.reason(infrav1.ProvisionedCondition) != infrav1.ReadyReason {
			t.Errorf("endpoint %s, %s", cp.Spec.ControlPlaneEndpoint.Host, f.reason(infrav1.ProvisionedCondition))
		}
		if cp.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
			t.Errorf("deletion policy %q", cp.Spec.DeletionPolicy)
		}
	})
}

// createAnother has the portal begin a second portal cluster. It returns the job.
func (f *fixture) createAnother() string {
	f.Helper()
	first := f.portal.Clusters()[0]
	job, err := f.cloud.CreateCluster(f.Context(), cloud.CreateClusterRequest{
		Name: "another", Description: "d", ZoneID: "z", ServiceOfferingID: "s", Size: 1, ControlNodes: 1, SSHKeyPair: "k",
		KubernetesVersionID: first.VersionID, VPCID: first.VPCID,
	})
	if err != nil {
		f.Fatal(err)
	}
	return job.ID
}
