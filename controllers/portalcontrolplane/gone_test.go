// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

const notFound = "RESOURCE_NOT_FOUND"

// vanish deletes the portal cluster at the portal, as a person would.
func (f *fixture) vanish() {
	f.Helper()
	_, err := f.identity.Portal.DeleteCluster(f.Context(), f.id)
	f.must(err)
	time.Sleep(time.Minute)
}

// TestGone: a lost connection shows that the cluster is gone. That is reported once, no other condition waits for anything, and
// the portal is asked at long intervals. If the portal finds the cluster again, everything recovers without a person.
func TestGone(t *testing.T) {
	now := newAPIServer(workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.strike(emulator.Fault{ID: "lost", Path: routeConfig, Code: notFound})
		before := f.fetches()
		for range 3600 {
			f.connect()
			time.Sleep(time.Second)
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
		if got := f.fetches() - before; got < 8 || got > 11 {
			t.Errorf("asked %d times in an hour", got)
		}
		f.restart()
		before = f.fetches()
		f.connect()
		if got := f.fetches() - before; got != 1 || len(f.events()) != 0 || f.reason(infrav1.ProvisionedCondition) != infrav1.PortalClusterGoneReason {
			t.Errorf("after a restart the portal was asked %d times", got)
		}
		f.strike(emulator.Fault{ID: "down", Path: routeConfig, Status: 503})
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

// TestGoneSeenByAScale: after a 404 to a scale, the portal is asked whether it knows the cluster at all.
func TestGoneSeenByAScale(t *testing.T) {
	now := kubeconfigs.For("server: 'https://192.0.2.1'", "token: "+kubeconfigs.Canary)
	for _, gone := range []bool{true, false} {
		withFixture(t, &now, func(f *fixture) {
			f.strike(emulator.Fault{Path: routeScale, Code: notFound})
			if gone {
				f.strike(emulator.Fault{Path: routeConfig, Code: notFound})
			}
			f.scale(3)
			s := f.pass()
			workers, provisioned := s.outcomes[infrav1.WorkersReadyCondition], s.outcomes[infrav1.ProvisionedCondition]
			if gone && (provisioned.Reason != infrav1.PortalClusterGoneReason || workers.Reason != infrav1.WaitingForDependencyReason) ||
				!gone && (!provisioned.IsDone() || workers.Reason != infrav1.RefusedReason) {
				t.Errorf("gone %t: Provisioned %+v, WorkersReady %+v", gone, provisioned, workers)
			}
		})
	}
}

// TestAdoptsAnother: the record of the old cluster does not apply to the one whose id a person sets. That one is retained unless the person
// says otherwise.
func TestAdoptsAnother(t *testing.T) {
	now := newAPIServer(workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		other := f.another()
		f.vanish()
		f.connect()
		f.change(func(cp *infrav1.PortalControlPlane) {
			put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "2", Result: operation.Succeeded})
			cp.Spec.ClusterID = other
		})
		now = kubeconfigs.For("server: 'https://192.0.2.9'", "token: "+kubeconfigs.Canary)
		f.connect() // the claim takes a pass of its own
		f.connect()
		cp := f.controlPlane()
		state := stateOf(cp)
		want := operation.Record{
			UID: cp.UID, ClusterID: other, Size: operation.SizeUnknown, TakenOver: true,
			UserID: state.Record.UserID, Portal: "portal.example:443", KubeconfigDigest: state.Record.KubeconfigDigest, Endpoint: cp.Spec.ControlPlaneEndpoint,
		}
		if diff := cmp.Diff(want, state.Record); diff != "" || state.Record.UserID == "" || state.Last != nil {
			t.Errorf("record %s, operation %+v", diff, state.Last)
		}
		if cp.Spec.ControlPlaneEndpoint.Host != "192.0.2.9" || !f.storedIs(now) || f.reason(infrav1.ProvisionedCondition) != infrav1.ReadyReason {
			t.Errorf("endpoint %s, %s", cp.Spec.ControlPlaneEndpoint.Host, f.reason(infrav1.ProvisionedCondition))
		}
		if cp.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
			t.Errorf("deletion policy %q", cp.Spec.DeletionPolicy)
		}
	})
}
