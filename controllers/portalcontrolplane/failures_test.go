// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	routeAnyCluster = "/kubernetes-clusters/*"
	routeAnyUpgrade = routeAnyCluster + "/upgrade"
)

// TestFailuresByOperation checks the table of docs/troubleshooting.md: which conditions show a failure, and after which time. Creations are
// checked by TestCreateCutOff and its neighbours in test/world.
func TestFailuresByOperation(t *testing.T) {
	cut := emulator.Fault{Cut: true}
	late := emulator.Fault{Cut: true, After: true, JobDelay: 10 * time.Minute} // the portal is busy with it
	forgotten := emulator.Fault{Job: emulator.JobForgotten, JobDelay: 4 * time.Minute}
	stuck, fails := emulator.Fault{Job: emulator.JobStuck}, emulator.Fault{Job: emulator.JobFails}
	type row struct {
		operation string
		fault     emulator.Fault
		after     time.Duration // of the look at the conditions
		want      string
	}
	cases(t, map[string]row{
		"scale cut":         {"scale", cut, 20 * time.Second, "WorkersReady=False/AnswerLost OperationInProgress=True/AnswerLost"},
		"scale again":       {"scale", cut, time.Minute, "WorkersReady=False/NodesUnclaimed OperationInProgress=False/Idle"},
		"scale stuck":       {"scale", stuck, 31 * time.Minute, "WorkersReady=False/ScalingUp OperationInProgress=True/JobStuck ScalingUp=True/JobStuck"},
		"scale fails":       {"scale", fails, 20 * time.Second, "WorkersReady=False/JobFailed OperationInProgress=False/Idle"},
		"upgrade cut":       {"upgrade", cut, 2 * time.Minute, "VersionUpToDate=False/Upgrading OperationInProgress=True/AnswerLost"},
		"upgrade again":     {"upgrade", cut, 4 * time.Minute, "VersionUpToDate=True/Ready OperationInProgress=False/Idle"},
		"upgrade forgotten": {"upgrade", forgotten, 2 * time.Minute, "VersionUpToDate=False/Upgrading OperationInProgress=True/AnswerLost"},
		"upgrade stuck":     {"upgrade", stuck, 31 * time.Minute, "VersionUpToDate=False/Upgrading OperationInProgress=True/JobStuck RollingOut=True/JobStuck"},
		"upgrade fails":     {"upgrade", fails, 20 * time.Second, "VersionUpToDate=False/JobFailed OperationInProgress=False/Idle"},
		"delete cut":        {"delete", cut, 20 * time.Second, "Deleting=True/AnswerLost OperationInProgress=True/Deleting"},
		"delete late":       {"delete", late, time.Minute, "Deleting=True/PortalBusy OperationInProgress=True/Deleting"},
		"delete forgotten":  {"delete", forgotten, 20 * time.Second, "Deleting=True/AnswerLost OperationInProgress=True/Deleting"},
		"delete stuck":      {"delete", stuck, 31 * time.Minute, "Deleting=True/JobStuck OperationInProgress=True/Deleting"},
		"delete fails":      {"delete", fails, 20 * time.Second, "Deleting=True/JobFailed OperationInProgress=False/Idle"},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		test.fault.Count = 1
		pass := f.begin(test.operation, test.fault)
		var s *scope
		for range test.after / (2 * time.Second) {
			s = pass()
			time.Sleep(2 * time.Second)
		}
		if got := shown(s.ControlPlane); !containsAll(got, strings.Fields(test.want)) {
			t.Errorf("want %s, got %v", test.want, got)
		}
	})
}

// begin starts an operation whose request meets the fault, and returns how a pass continues it.
func (f *fixture) begin(operation string, fault emulator.Fault) (pass func() *scope) {
	f.Helper()
	switch operation {
	case "scale":
		fault.Path = routeScale
		f.scale(5)
	case "upgrade":
		fault.Path = routeAnyUpgrade
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
	default:
		fault.Method, fault.Path = "DELETE", routeAnyCluster
		f.strike(fault)
		f.leave(departure{owner: "present", noted: "present"})
		return f.leaving
	}
	f.strike(fault)
	return f.pass
}

// shown are the conditions as Type=Status/Reason.
func shown(cp *infrav1.PortalControlPlane) (all []string) {
	for _, c := range cp.Status.Conditions {
		all = append(all, c.Type+"="+string(c.Status)+"/"+conditions.GetReason(cp, c.Type))
	}
	return all
}

func containsAll(got, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(got, w) })
}

// TestRefusalsDoNotLookLikeAMinimum sets the replicas to 0 while the portal refuses every change for another reason, with and without the field that
// it refuses. After the repair no worker stays: each would be billed.
func TestRefusalsDoNotLookLikeAMinimum(t *testing.T) {
	cases(t, map[string]emulator.Fault{
		"the state of the cluster":      {Code: emulator.CodeOperationNotAllowed, Message: "the cluster is in state Alert"},
		"a parameter that is not named": {Code: emulator.CodeInvalidParameter, Message: "not now"},
	}, func(t *testing.T, fault emulator.Fault) {
		f := newFixture(t, 2, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrderNewest })
		fault.Path, fault.For = routeScale, 2*time.Hour
		f.strike(fault)
		f.pass()
		f.scale(0)
		f.passes(2*time.Hour, 10*time.Second)
		if n := len(f.answers("scale")); n > 50 {
			t.Errorf("%d requests in two hours", n)
		}
		s := f.passes(2*time.Hour, 10*time.Second)
		if n := len(f.workers()); n != 0 || s.Record.MinWorkers != 0 {
			t.Errorf("%d workers are left, at least %d; %v", n, s.Record.MinWorkers, f.answers("scale"))
		}
	})
}
