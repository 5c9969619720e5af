// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// passed is a scope after a pass over a running cluster, with 3 workers of which one is free.
func passed(change ...func(*scope)) *scope {
	s := &scope{
		Pass:     pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Cluster: &clusterv1.Cluster{}},
		outcomes: map[string]outcome.Outcome{},
		plan:     &claims.Plan{Present: make([]claims.Node, 3), Free: 1, Desired: 2},
	}
	s.Record = operation.Record{Version: after, Size: 3}
	s.ControlPlane.Spec.ClusterID, s.ControlPlane.Spec.Version, s.ControlPlane.Spec.Replicas = "k8s-1", after, ptr.To[int32](3)
	s.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "portal.example", Port: 6443}
	for _, step := range (&Reconciler{}).steps() {
		s.outcomes[step.condition] = outcome.Outcome{}
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func ended(condition string, o outcome.Outcome) func(*scope) {
	return func(s *scope) { s.outcomes[condition] = o }
}

func inFlight(op operation.Operation) func(*scope) {
	return func(s *scope) { s.Last = &op }
}

// TestUpdateStatus checks the conditions that a pass makes, as Type=Status/Reason. A second pass changes nothing.
func TestUpdateStatus(t *testing.T) {
	down, unforeseen := outcome.WaitFor(0, infrav1.ConnectionDownReason, "it is away"), outcome.Fail(errors.New("secret"))
	refused, stuck := outcome.StallFor(0, infrav1.VersionNotOfferedReason, "set another"), outcome.StallFor(0, infrav1.JobStuckReason, "ask")
	scaling := operation.Operation{Type: operation.Scale, From: 5, Target: "3", JobID: "job-1"}
	upgrade := operation.Operation{Type: operation.Upgrade, Target: "v1.37.0", Unknown: "cut off"}
	for title, test := range map[string]struct {
		s    *scope
		want string // none is not there
	}{
		"all is well": {passed(), "Available=True/Ready Ready=True/Ready OperationInProgress=False/Idle WorkersReady=True/Ready Deleting=False/NotDeleting " +
			"RollingOut=False/NotRollingOut ScalingUp=False/NotScalingUp ScalingDown=False/NotScalingDown"},
		"not connected": {passed(ended(infrav1.ConnectedCondition, down)), "Available=False/ConnectionDown Connected=False/ConnectionDown"},
		"the first that is not True counts": {
			passed(ended(infrav1.ConnectedCondition, down), ended(infrav1.KubeconfigReadyCondition, outcome.BlockedBy("First", "wait"))),
			"Available=False/First KubeconfigReady=Unknown/First",
		},
		"workers do not count": {
			passed(ended(infrav1.WorkersReadyCondition, down)), "Available=True/Ready WorkersReady=False/ConnectionDown Ready=False/ConnectionDown",
		},
		"a version that is not offered": {
			passed(ended(infrav1.VersionUpToDateCondition, refused)),
			"Available=True/Ready VersionUpToDate=False/VersionNotOffered Ready=False/VersionNotOffered",
		},
		"unforeseen":          {passed(ended(infrav1.ProvisionedCondition, unforeseen)), "Available=False/InternalError Provisioned=Unknown/InternalError"},
		"nothing reached yet": {passed(func(s *scope) { s.outcomes = map[string]outcome.Outcome{} }), "Available=False/NotYetReported WorkersReady=none"},
		"a scale down runs":   {passed(inFlight(scaling)), "Ready=True/Ready OperationInProgress=True/ScalingDown ScalingDown=True/ScalingDown ScalingUp=False/NotScalingUp"},
		"it is stuck":         {passed(inFlight(scaling), ended(infrav1.OperationInProgressCondition, stuck)), "OperationInProgress=True/JobStuck ScalingDown=True/JobStuck"},
		"a lost upgrade runs": {
			passed(inFlight(upgrade), ended(infrav1.OperationInProgressCondition, outcome.WaitFor(0, infrav1.AnswerLostReason, "cut off"))),
			"OperationInProgress=True/AnswerLost RollingOut=True/AnswerLost",
		},
		"a creation runs":    {passed(inFlight(operation.Operation{Type: operation.Create})), "OperationInProgress=True/Creating"},
		"a creation is lost": {passed(inFlight(operation.Operation{Type: operation.Create, Unknown: "cut off"})), "OperationInProgress=True/OutcomeUnknown"},
		"an ended operation does not run": {
			passed(inFlight(operation.Operation{Type: operation.Upgrade, Result: operation.Failed})), "OperationInProgress=False/Idle RollingOut=False/NotRollingOut",
		},
		"no Cluster":           {passed(func(s *scope) { s.Cluster = nil }), "Available=False/WaitingForObject Ready=False/WaitingForObject"},
		"deleting":             {passed(ended(clusterv1.DeletingCondition, down)), "Deleting=True/ConnectionDown Available=False/Deleting Ready=False/Deleting"},
		"deleting, unforeseen": {passed(ended(clusterv1.DeletingCondition, unforeseen)), "Deleting=True/Deleting Available=False/Deleting"},
		"unreadable": {
			passed(func(s *scope) { s.unreadable = errors.New("annotation x") }),
			"Available=False/AnnotationUnreadable Ready=False/AnnotationUnreadable WorkersReady=none",
		},
		"nothing to do": {passed(ended(infrav1.WorkersReadyCondition, outcome.RetryAfter(0))), "WorkersReady=none"},
	} {
		t.Run(title, func(t *testing.T) {
			test.s.updateStatus()
			if lacks := lacks(test.s.ControlPlane, test.want); lacks != nil {
				t.Errorf("%q", lacks)
			}
			before := test.s.ControlPlane.Status.DeepCopy()
			if !ptr.Deref(before.ExternalManagedControlPlane, false) {
				t.Error("core would skip drain and hooks")
			}
			test.s.updateStatus()
			if diff := cmp.Diff(*before, test.s.ControlPlane.Status); diff != "" {
				t.Errorf("a second pass changes the status: %s", diff)
			}
		})
	}
}

// lacks returns which of the conditions, such as "Ready=True/Ready" or "Ready=none", the object does not show.
func lacks(cp *infrav1.PortalControlPlane, wanted string) (missing []string) {
	for want := range strings.FieldsSeq(wanted) {
		condition, _, _ := strings.Cut(want, "=")
		got := condition + "=none"
		if c := conditions.Get(cp, condition); c != nil {
			got = condition + "=" + string(c.Status) + "/" + c.Reason
		}
		if got != want {
			missing = append(missing, want+", not "+got)
		}
	}
	return missing
}

// TestRefusedUpgradeIsSeen: clusterctl describe shows spec.version and Available, so Available has the version that runs, and why it stays.
func TestRefusedUpgradeIsSeen(t *testing.T) {
	s := passed()
	for i, o := range []outcome.Outcome{outcome.StallFor(0, infrav1.VersionNotOfferedReason, "set another"), outcome.RetryAfter(0), {}} {
		s.outcomes[infrav1.VersionUpToDateCondition] = o
		s.updateStatus()
		want := []string{"The cluster runs v1.36.3. Set another", "The cluster runs v1.36.3. Set another", ""}[i]
		if got := conditions.GetMessage(s.ControlPlane, infrav1.AvailableCondition); got != want || !conditions.IsTrue(s.ControlPlane, infrav1.AvailableCondition) {
			t.Errorf("pass %d: %q, want %q", i, got, want)
		}
	}
}

// TestObservedGeneration checks when a new generation counts as observed: when each condition that Ready sums up is about it.
// Until then, a health check that compares generations does not use the conditions of the old spec.
func TestObservedGeneration(t *testing.T) {
	for title, test := range map[string]struct {
		pass func(*scope)
		want int64
	}{
		"all is well":                     {func(*scope) {}, 2},
		"the version has nothing to tell": {ended(infrav1.VersionUpToDateCondition, outcome.RetryAfter(0)), 1},
		"a step that was not reached":     {func(s *scope) { delete(s.outcomes, infrav1.WorkersReadyCondition) }, 1},
		"it is being deleted":             {ended(clusterv1.DeletingCondition, outcome.WaitFor(0, infrav1.DeletingReason, "")), 2},
		"nothing to tell of the deletion": {ended(clusterv1.DeletingCondition, outcome.RetryAfter(0)), 1},
		"an annotation is unreadable":     {func(s *scope) { s.unreadable = errors.New("x") }, 2},
	} {
		s := passed()
		s.ControlPlane.Generation = 1
		s.updateStatus()
		s.ControlPlane.Generation = 2
		test.pass(s)
		s.updateStatus()
		status, ready := s.ControlPlane.Status.ObservedGeneration, conditions.Get(s.ControlPlane, infrav1.ReadyCondition).ObservedGeneration
		if status != test.want || ready != test.want {
			t.Errorf("%s: generation %d, and of Ready %d, want %d", title, status, ready, test.want)
		}
	}
}

// TestCounters checks versions and counters.
func TestCounters(t *testing.T) {
	s := passed()
	status := func() infrav1.PortalControlPlaneStatus {
		s.updateStatus()
		return s.ControlPlane.Status
	}
	got := status()
	if diff := cmp.Diff(&infrav1.WorkerCounts{Desired: 2, Size: 3, Nodes: 3, Claimed: 2}, got.Workers); diff != "" {
		t.Error(diff)
	}
	if *got.Replicas != 3 || *got.ReadyReplicas != 3 || *got.UpToDateReplicas != 3 || got.Version != after {
		t.Errorf("%+v", got)
	}
	s.Record.Version, s.Record.Size = before, operation.SizeUnknown
	if got = status(); *got.UpToDateReplicas != 0 || got.Version != before || got.Workers.Size != 0 || got.Initialization.ControlPlaneInitialized != nil {
		t.Errorf("another version, before the infrastructure is provisioned: %+v", got)
	}
	s.PortalCluster = &infrav1.PortalCluster{}
	s.PortalCluster.Status.Initialization.Provisioned = ptr.To(true)
	if got = status(); !ptr.Deref(got.Initialization.ControlPlaneInitialized, false) {
		t.Error("not initialized")
	}
	s.outcomes[infrav1.ConnectedCondition] = outcome.WaitFor(0, infrav1.ConnectionDownReason, "it is away")
	if got = status(); *got.ReadyReplicas != 0 || *got.Replicas != 3 || got.Version == "" {
		t.Errorf("not connected: %+v", got)
	}
}

// TestStatusAfterTheTimeOfAPass checks that a pass that timed out waiting for the portal still reports that in the conditions.
func TestStatusAfterTheTimeOfAPass(t *testing.T) {
	live(t, 1, func(f *fixture) {
		// Like an API server, and unlike the fake one: nothing is written for a caller that is gone.
		f.manager.Client = interceptor.NewClient(f.store, interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}})
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		s := f.scope()
		s.outcomes[infrav1.ProvisionedCondition] = outcome.WaitFor(0, infrav1.PortalUnavailableReason, "the portal does not answer")
		f.must(f.manager.patchStatus(ctx, s, s.ControlPlane.Status.DeepCopy()))
		if got := f.reason(infrav1.ProvisionedCondition); got != infrav1.PortalUnavailableReason {
			f.Errorf("Provisioned is %s", got)
		}
	})
}

// TestHalfProtected protects only the Cluster against deletion. One Warning and the condition Deleting say what is missing.
func TestHalfProtected(t *testing.T) {
	now := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
		f.connect()
		f.connect()
		warnings := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, infrav1.EventProtectionIncomplete) })
		if len(warnings) != 1 || !strings.Contains(warnings[0], "PortalControlPlane prod is not protected against deletion, but Cluster prod is") {
			t.Errorf("%q", warnings)
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Annotations[infrav1.DeletionProtectionAnnotation] = "true" })
		f.connect()
		if got := conditions.GetMessage(f.controlPlane(), clusterv1.DeletingCondition); got != "" {
			t.Errorf("both are protected: %s", got)
		}
	})
}
