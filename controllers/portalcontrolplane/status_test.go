// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// passed is a scope after a pass over a running cluster, with 3 workers of which one is free.
func passed(change ...func(*scope)) *scope {
	s := &scope{
		Pass:     pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Cluster: &clusterv1.Cluster{}, State: operation.State{Record: operation.Record{Version: "v1.36.3", Size: 3}}},
		outcomes: map[string]outcome.Outcome{},
		plan:     &claims.Plan{Present: make([]claims.Node, 3), Free: 1, Desired: 2},
	}
	s.ControlPlane.Spec.ClusterID, s.ControlPlane.Spec.Version, s.ControlPlane.Spec.Replicas = "k8s-1", "v1.36.3", ptr.To[int32](3)
	s.ControlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "portal.example", Port: 6443}
	for _, condition := range []string{
		infrav1.ProvisionedCondition, infrav1.KubeconfigReadyCondition, infrav1.ConnectedCondition, infrav1.OperationInProgressCondition,
		infrav1.VersionUpToDateCondition, infrav1.WorkersReadyCondition,
	} {
		s.outcomes[condition] = outcome.Outcome{}
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

// TestUpdateStatus checks the conditions that a pass makes.
func TestUpdateStatus(t *testing.T) {
	type want map[string]string // condition: status and reason
	down := outcome.WaitFor(0, infrav1.ConnectionDownReason, "it is away")
	scaling := operation.Operation{Type: operation.Scale, From: 5, Target: "3", JobID: "job-1"}
	tests := map[string]struct {
		s    *scope
		want want
	}{
		"all is well": {passed(), want{
			"Available": "True Ready", "Ready": "True Ready", "OperationInProgress": "False Idle", "WorkersReady": "True Ready", "Deleting": "False NotDeleting",
			"RollingOut": "False NotRollingOut", "ScalingUp": "False NotScalingUp", "ScalingDown": "False NotScalingDown",
		}},
		"not connected": {passed(ended(infrav1.ConnectedCondition, down)), want{"Available": "False ConnectionDown", "Connected": "False ConnectionDown"}},
		"the first that is not True counts": {
			passed(ended(infrav1.ConnectedCondition, down), ended(infrav1.KubeconfigReadyCondition, outcome.BlockedBy("First", "wait"))),
			want{"Available": "False First", "KubeconfigReady": "Unknown First"},
		},
		"workers do not count": {
			passed(ended(infrav1.WorkersReadyCondition, down)),
			want{"Available": "True Ready", "WorkersReady": "False ConnectionDown", "Ready": "False ConnectionDown"},
		},
		"a version that is not offered": {
			passed(ended(infrav1.VersionUpToDateCondition, outcome.StallFor(0, infrav1.VersionNotOfferedReason, "set another"))),
			want{"Available": "True Ready", "VersionUpToDate": "False VersionNotOffered", "Ready": "False VersionNotOffered"},
		},
		"unforeseen":          {passed(ended(infrav1.ProvisionedCondition, outcome.Fail(errors.New("secret")))), want{"Available": "False InternalError", "Provisioned": "Unknown InternalError"}},
		"nothing reached yet": {passed(func(s *scope) { s.outcomes = map[string]outcome.Outcome{} }), want{"Available": "False NotYetReported", "WorkersReady": ""}},
		"a scale down runs":   {passed(inFlight(scaling)), want{"Ready": "True Ready", "OperationInProgress": "True ScalingDown", "ScalingDown": "True ScalingDown", "ScalingUp": "False NotScalingUp"}},
		"it is stuck": {
			passed(inFlight(scaling), ended(infrav1.OperationInProgressCondition, outcome.StallFor(0, infrav1.JobStuckReason, "ask"))),
			want{"OperationInProgress": "True JobStuck", "ScalingDown": "True JobStuck"},
		},
		"a lost upgrade runs": {
			passed(inFlight(operation.Operation{Type: operation.Upgrade, Target: "v1.37.0", Unknown: "cut off"}),
				ended(infrav1.OperationInProgressCondition, outcome.WaitFor(0, infrav1.AnswerLostReason, "cut off"))),
			want{"OperationInProgress": "True AnswerLost", "RollingOut": "True AnswerLost"},
		},
		"a creation runs": {passed(inFlight(operation.Operation{Type: operation.Create})), want{"OperationInProgress": "True Creating"}},
		"a creation is lost": {
			passed(inFlight(operation.Operation{Type: operation.Create, Unknown: "cut off"})), want{"OperationInProgress": "True OutcomeUnknown"},
		},
		"an ended operation does not run": {
			passed(func(s *scope) { s.Last = &operation.Operation{Type: operation.Upgrade, Result: operation.Failed} }),
			want{"OperationInProgress": "False Idle", "RollingOut": "False NotRollingOut"},
		},
		"no Cluster": {passed(func(s *scope) { s.Cluster = nil }), want{"Available": "False WaitingForObject", "Ready": "False WaitingForObject"}},
		"deleting":   {passed(ended(clusterv1.DeletingCondition, down)), want{"Deleting": "True ConnectionDown", "Available": "False Deleting", "Ready": "False Deleting"}},
		"deleting, unforeseen": {
			passed(ended(clusterv1.DeletingCondition, outcome.Fail(errors.New("secret")))), want{"Deleting": "True Deleting", "Available": "False Deleting"},
		},
		"unreadable":    {passed(func(s *scope) { s.unreadable = errors.New("annotation x") }), want{"Available": "False AnnotationUnreadable", "Ready": "False AnnotationUnreadable", "WorkersReady": ""}},
		"nothing to do": {passed(ended(infrav1.WorkersReadyCondition, outcome.RetryAfter(0))), want{"WorkersReady": ""}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			test.s.updateStatus()
			for condition, want := range test.want {
				got := ""
				if c := conditions.Get(test.s.ControlPlane, condition); c != nil {
					got = string(c.Status) + " " + c.Reason
				}
				if got != want {
					t.Errorf("%s is %q, want %q", condition, got, want)
				}
			}
			if !ptr.Deref(test.s.ControlPlane.Status.ExternalManagedControlPlane, false) {
				t.Error("core would skip drain and hooks")
			}
			before := test.s.ControlPlane.Status.DeepCopy()
			test.s.updateStatus()
			if diff := cmp.Diff(*before, test.s.ControlPlane.Status); diff != "" {
				t.Errorf("a second pass changes the status: %s", diff)
			}
		})
	}
}

// TestRefusedUpgradeIsSeen: clusterctl describe shows spec.version and Available, so Available has the version that runs, and why it stays.
func TestRefusedUpgradeIsSeen(t *testing.T) {
	s := passed(ended(infrav1.VersionUpToDateCondition, outcome.StallFor(0, infrav1.VersionNotOfferedReason, "set another")))
	want := "The cluster runs v1.36.3. Set another"
	for range 2 { // the second pass changes nothing
		s.updateStatus()
		if c := conditions.Get(s.ControlPlane, infrav1.AvailableCondition); c.Status != metav1.ConditionTrue || c.Message != want {
			t.Errorf("%+v", c)
		}
		s.outcomes[infrav1.VersionUpToDateCondition] = outcome.RetryAfter(0)
	}
	s.outcomes[infrav1.VersionUpToDateCondition] = outcome.Outcome{}
	if s.updateStatus(); conditions.Get(s.ControlPlane, infrav1.AvailableCondition).Message != "" {
		t.Error("the message stays")
	}
}

// TestObservedGeneration checks when a new generation counts as observed: when each condition that Ready sums up is about it.
// Until then, a health check that compares generations does not use the conditions of the old spec.
func TestObservedGeneration(t *testing.T) {
	tests := map[string]struct {
		pass func(*scope)
		want int64
	}{
		"all is well":                     {func(*scope) {}, 2},
		"the upgrade is refused":          {ended(infrav1.VersionUpToDateCondition, outcome.StallFor(0, infrav1.VersionNotOfferedReason, "")), 2},
		"the version has nothing to tell": {ended(infrav1.VersionUpToDateCondition, outcome.RetryAfter(0)), 1},
		"the workers have nothing":        {ended(infrav1.WorkersReadyCondition, outcome.RetryAfter(0)), 1},
		"a step that failed":              {ended(infrav1.VersionUpToDateCondition, outcome.Fail(errors.New("x"))), 2},
		"a step that was not reached":     {func(s *scope) { delete(s.outcomes, infrav1.WorkersReadyCondition) }, 1},
		"of a topology it does not count": {ended(infrav1.TopologyUpgradableCondition, outcome.RetryAfter(0)), 2},
		"it is being deleted":             {ended(clusterv1.DeletingCondition, outcome.WaitFor(0, infrav1.DeletingReason, "")), 2},
		"nothing to tell of the deletion": {ended(clusterv1.DeletingCondition, outcome.RetryAfter(0)), 1},
		"an annotation is unreadable":     {func(s *scope) { s.unreadable = errors.New("x") }, 2},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := passed()
			s.ControlPlane.Generation = 1
			s.updateStatus()
			s.ControlPlane.Generation = 2
			test.pass(s)
			s.updateStatus()
			if got := s.ControlPlane.Status.ObservedGeneration; got != test.want {
				t.Errorf("generation %d, want %d", got, test.want)
			}
			if got := conditions.Get(s.ControlPlane, infrav1.ReadyCondition).ObservedGeneration; got != test.want {
				t.Errorf("Ready is about generation %d, want %d", got, test.want)
			}
		})
	}
}

// TestCounters checks versions and counters.
func TestCounters(t *testing.T) {
	s := passed()
	s.updateStatus()
	status := s.ControlPlane.Status
	if diff := cmp.Diff(&infrav1.WorkerCounts{Desired: 2, Size: 3, Nodes: 3, Claimed: 2}, status.Workers); diff != "" {
		t.Error(diff)
	}
	if *status.Replicas != 3 || *status.ReadyReplicas != 3 || *status.UpToDateReplicas != 3 || status.Version != "v1.36.3" {
		t.Errorf("%+v", status)
	}
	s.Record.Version, s.Record.Size = "v1.35.6", operation.SizeUnknown
	s.updateStatus()
	status = s.ControlPlane.Status
	if *status.UpToDateReplicas != 0 || status.Version != "v1.35.6" || status.Workers.Size != 0 {
		t.Errorf("%+v", status)
	}
	if ptr.Deref(status.Initialization.ControlPlaneInitialized, false) {
		t.Error("initialized before the infrastructure is provisioned")
	}
	s.PortalCluster = &infrav1.PortalCluster{}
	s.PortalCluster.Status.Initialization.Provisioned = ptr.To(true)
	s.updateStatus()
	if status = s.ControlPlane.Status; !ptr.Deref(status.Initialization.ControlPlaneInitialized, false) {
		t.Error("not initialized")
	}
	s.outcomes[infrav1.ConnectedCondition] = outcome.WaitFor(0, infrav1.ConnectionDownReason, "it is away")
	s.updateStatus()
	if status = s.ControlPlane.Status; *status.ReadyReplicas != 0 || *status.Replicas != 3 || status.Version == "" {
		t.Errorf("%+v", status)
	}
	if c := conditions.Get(s.ControlPlane, infrav1.AvailableCondition); c.Status != metav1.ConditionFalse || c.Message != "It is away" {
		t.Errorf("%+v", c)
	}
}
