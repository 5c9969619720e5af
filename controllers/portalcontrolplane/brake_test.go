// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// allow sets the annotation that allows one more job of an operation that failed.
func (f *fixture) allow(t operation.Type) {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) {
		id := stateOf(cp).Record.Failures[t].ID
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(id))
	})
}

// TestUpgradeThatFailsIsNotRepeatedForever has a Pod on the second worker that the portal cannot evict. Each job drains that worker again, until the
// provider stops after three jobs. Then the user removes the Pod, and allows one more job.
func TestUpgradeThatFailsIsNotRepeatedForever(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.nodes.blocked = f.portal.Clusters()[0].Nodes[2].Name
		f.strike(emulator.Fault{Path: routeUpgrade, Drain: time.Minute})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		version := func(s *scope) *metav1.Condition {
			return conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		}
		s := f.passes(time.Hour, 10*time.Second)
		if c := version(s); len(f.answers("upgrade")) != 1 || c.Reason != infrav1.JobFailedReason || !strings.Contains(c.Message, "could not be drained") {
			f.Errorf("%d requests in the first hour: %s: %s", len(f.answers("upgrade")), c.Reason, c.Message)
		}
		f.passes(11*time.Hour, 10*time.Second)
		f.restart()
		s = f.passes(12*time.Hour, 10*time.Second)
		drained := slices.DeleteFunc(f.portal.RequestLog(), func(e emulator.LogEntry) bool { return e.To != "not drained" })
		if n := len(f.answers("upgrade")); n != 3 || len(drained) != 3 {
			f.Errorf("%d requests in a day, and the worker was drained %d times", n, len(drained))
		}
		id := s.Record.Failures[operation.Upgrade].ID
		for _, want := range []string{"3 jobs", "could not be drained", "set another spec.version", operation.Command(s.ControlPlane, infrav1.DecisionRetry, id)} {
			if c := version(s); c.Reason != infrav1.OperationStoppedReason || !strings.Contains(c.Message, want) {
				f.Errorf("%s: the message does not contain %q: %s", c.Reason, want, c.Message)
			}
		}
		if cordoned, _ := f.cordoned(); len(cordoned) > 0 {
			f.Errorf("cordoned: %v", cordoned)
		}
		f.nodes.blocked = ""
		f.allow(operation.Upgrade)
		if s = f.passes(10*time.Minute, 10*time.Second); !f.allRun(after) || !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) || len(s.Record.Failures) > 0 {
			f.Errorf("after the user has allowed it: %+v, %+v", version(s), s.Record.Failures)
		}
		if left, found := s.ControlPlane.Annotations[infrav1.DecisionAnnotation]; found {
			f.Errorf("the permission was used, and remains: %s", left)
		}
	})
}

// TestUpgradeThatItsJobRefuses has a portal that checks a request in the job. Its nodes stay as they are, so the provider asks on as after a refusal.
func TestUpgradeThatItsJobRefuses(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.strike(emulator.Fault{ID: "refuses", Path: routeUpgrade, Job: emulator.JobFails, JobCode: emulator.CodeOperationNotAllowed})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		s := f.passes(6*time.Hour, 10*time.Second)
		c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition)
		if n := len(f.answers("upgrade")); n < 25 || c.Reason != infrav1.RefusedReason || len(s.Record.Failures) > 0 {
			f.Errorf("%d requests in six hours: %s: %s", n, c.Reason, c.Message)
		}
		f.portal.RemoveFault("refuses")
		if f.passes(15*time.Minute, 10*time.Second); !f.allRun(after) {
			f.Error("the cluster is not upgraded")
		}
	})
}

// TestUpgradeIsObserved has a portal that makes the node schedulable at which it fails. Only while the job runs the nodes show that it was drained.
func TestUpgradeIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute})
		node := f.portal.Clusters()[0].Nodes[1].Name
		f.strike(emulator.Fault{Path: routeUpgrade, Job: emulator.JobFails})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
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
		for began := time.Now(); time.Since(began) < 24*time.Hour; time.Sleep(10 * time.Second) {
			s = f.pass()
			if n := len(f.answers("scale")); n > asked {
				asked = n
				f.cordon(oldest, true)
			}
		}
		c := conditions.Get(s.ControlPlane, infrav1.WorkersReadyCondition)
		if asked != 3 || c.Reason != infrav1.OperationStoppedReason || !strings.Contains(c.Message, "a node could not be drained") || !strings.Contains(c.Message, "set other replicas") {
			f.Errorf("%d requests in a day: %s: %s", asked, c.Reason, c.Message)
		}
		f.portal.RemoveFault("fails")
		f.scale(2)
		if s = f.passes(15*time.Minute, 10*time.Second); len(f.workers()) != 2 || len(s.Record.Failures) > 0 {
			f.Errorf("%d workers, %+v", len(f.workers()), s.Record.Failures)
		}
	})
}
