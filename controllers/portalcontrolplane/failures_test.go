// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestFailuresByOperation checks the table of docs/troubleshooting.md: which conditions show a failure, and after which time. Creations are
// checked by TestCrashInsideCalls of test/world.
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
		if lacks := lacks(s.ControlPlane, test.want); lacks != nil {
			t.Errorf("%q", lacks)
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
		fault.Path = routeUpgrade
		f.upgrade(after)
	default:
		fault.Method, fault.Path = "DELETE", routeCluster
		f.strike(fault)
		f.leave(person)
		return f.leaving
	}
	f.strike(fault)
	return f.pass
}

// TestRefusalsDoNotLookLikeAMinimum sets the replicas to 0 while the portal refuses every change for its state. After the repair no worker stays: each
// would be billed.
func TestRefusalsDoNotLookLikeAMinimum(t *testing.T) {
	type row struct {
		workers int
		fault   emulator.Fault
	}
	inAlert := emulator.Fault{Path: routeScale, Code: emulator.CodeOperationNotAllowed, Message: "the cluster is in state Alert"}
	cases(t, map[string]row{
		"the state of the cluster":      {2, inAlert},
		"the state, and one worker":     {1, inAlert},
		"a parameter that is not named": {2, emulator.Fault{Path: routeScale, Code: emulator.CodeInvalidParameter, Message: "not now"}},
	}, func(t *testing.T, test row) {
		f := newFixture(t, test.workers, emulator.Durations{})
		f.expect(infrav1.RemovalOrderNewest)
		f.strike(test.fault)
		f.pass()
		f.scale(0)
		f.passes(2*time.Hour, 10*time.Second)
		for range 360 { // a repair between the requests for 0 and for 1 would look like a minimum
			if len(f.answers("scale"))%2 == 0 {
				break
			}
			f.passes(10*time.Second, 10*time.Second)
		}
		f.portal.ClearFaults()
		if n := len(f.answers("scale")); n > 50 {
			t.Errorf("%d requests in two hours", n)
		}
		s := f.passes(2*time.Hour, 10*time.Second)
		if n := len(f.workers()); n != 0 || s.Record.MinWorkers != 0 {
			t.Errorf("%d workers are left, at least %d; %v", n, s.Record.MinWorkers, f.answers("scale"))
		}
	})
}

// TestPortalRefusesUntilTheRepair has a portal that refuses to change a cluster after a failed job. A condition says who has to repair it, and the
// portal is asked ever more rarely. After the repair, the operation is carried out. TestPortalThatDrains of test/world does the same with a scale.
func TestPortalRefusesUntilTheRepair(t *testing.T) {
	fails := emulator.Fault{Job: emulator.JobFailsHalfway, Alert: true, LeaveCordoned: true, Count: 1}
	type row struct {
		operation, condition string
		reached              func(*fixture) bool
	}
	cases(t, map[string]row{
		"upgrade": {"upgrade", infrav1.VersionUpToDateCondition, func(f *fixture) bool { return f.portal.Clusters()[0].Version == after && f.allRun(after) }},
		"delete":  {"delete", clusterv1.DeletingCondition, func(f *fixture) bool { return len(f.portal.Clusters()) == 0 }},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		pass := f.begin("upgrade", fails)
		f.liveBy(pass, time.Minute)
		if test.operation == "delete" {
			pass = f.begin(test.operation, emulator.Fault{State: emulator.ClusterAlert, Code: emulator.CodeOperationNotAllowed, Message: "it is in state Alert"})
		}
		o := f.liveBy(pass, 6*time.Hour).outcomes[test.condition]
		if !says(o, infrav1.RefusedReason, "is in state Alert", "the portal's operator has to repair") {
			t.Errorf("while the portal refuses: %+v", o)
		}
		refused := 0
		for _, e := range f.portal.RequestLog() {
			if e.Code == emulator.CodeOperationNotAllowed {
				refused++
			}
		}
		if refused == 0 || refused > 40 {
			t.Errorf("%d refused requests in six hours", refused)
		}
		f.must(f.portal.Repair(f.id))
		if f.liveBy(pass, 15*time.Minute); !test.reached(f) {
			t.Errorf("after the repair: %+v", f.portal.Clusters())
		}
	})
}

// TestFailedUpgradeLeavesNoNodeCordoned checks whether a node becomes schedulable at which an upgrade failed. A person who cordons it later decides.
func TestFailedUpgradeLeavesNoNodeCordoned(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	type row struct {
		earlier bool               // the node was cordoned before the upgrade
		lost    bool               // the answer was lost, so the provider asks again, and is refused
		mark    func(*corev1.Node) // during the upgrade
		stays   bool
		says    string
	}
	cases(t, map[string]row{
		"by the portal":        {says: "made the node schedulable again"},
		"the answer was lost":  {lost: true, says: "made the node schedulable again"},
		"with Kubernetes mark": {mark: taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), says: "made the node schedulable again"},
		"before the upgrade":   {earlier: true, stays: true},
		"amid a rollout": {
			mark: taint(clusterv1.NodeOutdatedRevisionTaint.Key, clusterv1.NodeOutdatedRevisionTaint.Effect),
			says: "made the node schedulable again",
		},
		"marked by another": {
			mark:  taint("example.com/broken", corev1.TaintEffectNoSchedule),
			stays: true, says: "It stays cordoned, because it has taint example.com/broken",
		},
		"not Ready": {
			mark:  func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse },
			stays: true, says: "It stays cordoned, because it is not Ready",
		},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		node := f.portal.Clusters()[0].Nodes[2].Name
		f.cordon(node, test.earlier)
		pass := f.begin("upgrade", emulator.Fault{
			Job: emulator.JobFailsHalfway, JobNodes: 2, LeaveCordoned: true, Alert: true, Count: 1, Cut: test.lost, After: test.lost,
		})
		pass()
		time.Sleep(9 * time.Second)
		if names, _ := f.cordoned(); !slices.Contains(names, node) {
			t.Fatal("the portal did not leave the node cordoned")
		}
		if test.mark != nil {
			f.changeNode(node, test.mark)
		}
		f.events()
		for _, stays := range []bool{test.stays, true} {
			f.liveBy(pass, time.Hour)
			if names, _ := f.cordoned(); slices.Contains(names, node) != stays {
				t.Errorf("cordoned: %v", names)
			}
			f.cordon(node, true)
		}
		told := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, node) })
		if test.says == "" && len(told) > 0 || test.says != "" && (len(told) != 1 || !strings.Contains(told[0], test.says)) {
			t.Errorf("events: %q", told)
		}
	})
}

// TestFailedScaleLeavesNoNodeCordoned has a portal that drains another node than the provider expects, and fails. That node becomes schedulable. The
// one that the provider has drained for the scale-down does not.
func TestFailedScaleLeavesNoNodeCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeScale, Job: emulator.JobFails, Alert: true, Count: 1})
		oldest := f.portal.Clusters()[0].Nodes[1].Name
		f.scale(2)
		for len(f.answers("scale")) == 0 {
			f.passes(10*time.Second, 10*time.Second)
		}
		f.cordon(oldest, true)
		f.passes(time.Hour, 10*time.Second)
		if cordoned, _ := f.cordoned(); len(cordoned) != 1 || cordoned[0] == oldest {
			f.Errorf("cordoned: %v, and the portal cordoned %s", cordoned, oldest)
		}
		if told := strings.Join(f.events(), "\n"); !strings.Contains(told, "failed and left worker node "+oldest+" cordoned") {
			f.Errorf("events: %s", told)
		}
	})
}

// TestUpgradeThatFailsIsNotRepeatedForever has a Pod on the second worker that the portal cannot evict. Each job drains that worker again, until the
// provider stops after three jobs. Then the user removes the Pod, and allows one more job.
func TestUpgradeThatFailsIsNotRepeatedForever(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.nodes.blocked = f.portal.Clusters()[0].Nodes[2].Name
		f.strike(emulator.Fault{Path: routeUpgrade, Drain: time.Minute})
		f.upgrade(after)
		if f.passes(time.Hour, 10*time.Second); len(f.answers("upgrade")) != 1 {
			f.Errorf("%d requests in the first hour", len(f.answers("upgrade")))
		}
		f.passes(11*time.Hour, time.Minute)
		f.restart()
		s := f.passes(12*time.Hour, time.Minute)
		drained := slices.DeleteFunc(f.portal.RequestLog(), func(e emulator.LogEntry) bool { return e.To != "not drained" })
		if n := len(f.answers("upgrade")); n != 3 || len(drained) != 3 {
			f.Errorf("%d requests in a day, and the worker was drained %d times", n, len(drained))
		}
		allow := infrav1.DecisionRetry.About(s.Record.Failures[operation.Upgrade].ID)
		o := s.outcomes[infrav1.VersionUpToDateCondition]
		if !says(o, infrav1.OperationStoppedReason, "3 jobs", "could not be drained", "set another spec.version", allow) {
			f.Errorf("%+v, want %s", o, allow)
		}
		if cordoned, _ := f.cordoned(); len(cordoned) > 0 {
			f.Errorf("cordoned: %v", cordoned)
		}
		f.nodes.blocked = ""
		f.decide(allow)
		s = f.passes(10*time.Minute, 10*time.Second)
		used := s.ControlPlane.Annotations[infrav1.DecisionAnnotation] == ""
		if !f.allRun(after) || !s.done(infrav1.VersionUpToDateCondition) || len(s.Record.Failures) > 0 || !used {
			f.Errorf("after the user has allowed it: %+v, %+v", s.outcomes[infrav1.VersionUpToDateCondition], s.ControlPlane.Annotations)
		}
	})
}

// TestFailedUpgradeOfAClusterThatLosesItsWorkers has an upgrade fail at the only worker, which goes afterwards. The API server alone runs the new
// version, and shows nothing of the version in which the portal adds workers. So the upgrade is repeated.
func TestFailedUpgradeOfAClusterThatLosesItsWorkers(t *testing.T) {
	live(t, 1, func(f *fixture) {
		f.nodes.blocked = f.portal.Clusters()[0].Nodes[1].Name
		f.strike(emulator.Fault{Path: routeUpgrade, Drain: time.Minute, Count: 1})
		f.upgrade(after)
		f.passes(10*time.Minute, 10*time.Second)
		f.nodes.blocked = ""
		f.scale(0)
		s := f.passes(time.Hour, 10*time.Second)
		if n := len(f.workers()); n != 0 || s.done(infrav1.VersionUpToDateCondition) {
			f.Errorf("%d workers, and the version: %+v", n, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		f.passes(3*time.Hour, time.Minute)
		f.scale(2)
		s = f.passes(10*time.Minute, 10*time.Second)
		if n := len(f.workers()); n != 2 || !f.allRun(after) || !s.done(infrav1.VersionUpToDateCondition) || len(f.answers("upgrade")) != 2 {
			f.Errorf("%d workers, upgrades %v: %+v", n, f.answers("upgrade"), s.outcomes[infrav1.VersionUpToDateCondition])
		}
	})
}

// TestUpgradeIsObserved has a portal that makes the node schedulable at which it fails. Only while the job runs the nodes show that it was drained.
func TestUpgradeIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute})
		node := f.portal.Clusters()[0].Nodes[1].Name
		f.strike(emulator.Fault{Path: routeUpgrade, Job: emulator.JobFails})
		f.upgrade(after)
		for _, cordoned := range []bool{false, true, false} {
			f.cordon(node, cordoned)
			f.passes(time.Minute, 10*time.Second)
		}
		s := f.passes(time.Hour, 10*time.Second)
		if n := len(f.answers("upgrade")); n != 1 || s.Record.Failures[operation.Upgrade].Count != 1 {
			t.Errorf("%d requests: %+v", n, s.Record.Failures)
		}
	})
}

// TestScaleDownThatFailsIsNotRepeatedForever has a portal that drains another node than the provider expects, and fails. After three jobs the
// provider stops. Another number of replicas is another request.
func TestScaleDownThatFailsIsNotRepeatedForever(t *testing.T) {
	live(t, 4, func(f *fixture) {
		f.strike(emulator.Fault{ID: "fails", Path: routeScale, Job: emulator.JobFails, JobMessage: "a node could not be drained"})
		oldest := f.portal.Clusters()[0].Nodes[1].Name
		f.scale(3)
		var s *scope
		asked := 0
		for began := time.Now(); time.Since(began) < 24*time.Hour; time.Sleep(30 * time.Second) {
			s = f.pass()
			if n := len(f.answers("scale")); n > asked {
				asked = n
				f.cordon(oldest, true)
			}
		}
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if asked != 3 || !says(o, infrav1.OperationStoppedReason, "a node could not be drained", "set other replicas") {
			f.Errorf("%d requests in a day: %+v", asked, o)
		}
		f.portal.RemoveFault("fails")
		f.scale(2)
		if s = f.passes(15*time.Minute, 10*time.Second); len(f.workers()) != 2 || len(s.Record.Failures) > 0 {
			f.Errorf("%d workers, %+v", len(f.workers()), s.Record.Failures)
		}
	})
}

// refuseChanges starts a manager for which a webhook of the workload cluster fails whenever the Node is changed.
func (f *fixture) refuseChanges(node string) {
	f.nodes.WithWatch = interceptor.NewClient(f.nodes.WithWatch, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == node {
				return apierrors.NewInternalError(errors.New(`failed calling webhook "nodes.policy.example": no endpoints available`))
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	f.restart()
}

// TestNodeThatCannotBeCordoned lowers the replicas from 3 to 1. The Node to remove second cannot be changed. The first one is removed all the
// same, and the condition names the other one with the webhook.
func TestNodeThatCannotBeCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.expect(infrav1.RemovalOrderNewest)
		f.pass()
		bad := f.workers()[1].Name // of one age, the last name goes first
		f.refuseChanges(bad)
		f.scale(1)
		o := f.passes(time.Hour, 5*time.Second).outcomes[infrav1.WorkersReadyCondition]
		if len(f.workers()) != 2 || !says(o, o.Reason, "Node "+bad+" cannot be changed", "nodes.policy.example") {
			f.Errorf("%d workers, want 2; %+v", len(f.workers()), o)
		}
	})
}

// TestFailedUpgradeAndANodeThatStaysCordoned: a portal leaves all workers cordoned when an upgrade fails, and one of them cannot be changed. The
// others take Pods again, and the replicas are still followed.
func TestFailedUpgradeAndANodeThatStaysCordoned(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.begin("upgrade", emulator.Fault{Job: emulator.JobFails, JobDelay: time.Minute, Count: 1})()
		for _, n := range f.workers() {
			f.cordon(n.Name, true)
		}
		f.upgrade(before)
		bad := f.workers()[0].Name
		f.refuseChanges(bad)
		o := f.passes(10*time.Minute, 5*time.Second).outcomes[infrav1.VersionUpToDateCondition]
		if names, _ := f.cordoned(); !slices.Equal(names, []string{bad}) || !says(o, o.Reason, "Node "+bad, "nodes.policy.example") {
			f.Errorf("cordoned: %v, want %s; %+v", names, bad, o)
		}
		f.scale(4)
		f.passes(10*time.Minute, 5*time.Second)
		if n := len(f.workers()); n != 4 {
			f.Errorf("%d workers, want 4", n)
		}
	})
}
