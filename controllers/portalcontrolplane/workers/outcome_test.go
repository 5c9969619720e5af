// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// settled is a scope of three workers that Machines hold one to one.
func settled(s *scene) { s.plan.Desired, s.plan.Free = 3, 0 }

// TestWorkersMessages checks what WorkersReady reports about Machines and nodes, and that messages name the objects.
func TestWorkersMessages(t *testing.T) {
	upgrade := inFlight(operation.Operation{Type: operation.Upgrade, Target: "v1.37.0", JobID: "job-1"})
	tests := map[string]struct {
		changes []func(*scene)
		kind    outcome.Kind
		reason  string
		names   []string // in the message, in this order
		hides   []string
	}{
		"a scale down runs, and Machines drain": {[]func(*scene){settled, inFlight(operation.Operation{Type: operation.Scale, From: 5, Target: "3", JobID: "job-1"}), machinesDrain("m1")},
			outcome.Wait, infrav1.ScalingDownReason, []string{"from 5 to 3", "job-1"}, []string{"m1"}},
		"Machines drain": {[]func(*scene){machinesDrain("m2", "m1")}, outcome.Wait, infrav1.DrainingReason, []string{"2", "m1, m2"}, nil},
		"nodes drain, and a Pod is held": {[]func(*scene){nodesDrain("n2", "n1"), func(s *scene) {
			s.drains = map[string]string{"n2": "Pod default/db: cannot evict pod", "n9": "Pod default/other"}
		}}, outcome.Wait, infrav1.DrainingReason, []string{"n1", "n2", "Pod default/db: cannot evict pod"}, []string{"other"}},
		"nodes drain while something else runs": {[]func(*scene){nodesDrain("n1"), upgrade}, outcome.Wait, infrav1.DrainingReason, []string{"n1"}, []string{"v1.37.0"}},
		"an upgrade runs, and a node is away": {[]func(*scene){settled, upgrade, func(s *scene) { s.plan.Present = s.plan.Present[:2] }},
			outcome.Wait, infrav1.WaitingForOperationReason, []string{"upgrade to v1.37.0"}, nil},
		"an upgrade runs, and all is well":         {[]func(*scene){settled, upgrade}, outcome.Done, "", nil, []string{"v1.37.0"}},
		"an upgrade runs, and a node is not Ready": {[]func(*scene){settled, upgrade, notReadyNodes("n1")}, outcome.Done, "", nil, []string{"n1"}},
		"a template that the portal cannot honor": {[]func(*scene){settled, mismatched("m2", "m1")}, outcome.Stalled, infrav1.TemplateNotHonoredReason,
			[]string{"m1, m2", "small", "ops", "Revert"}, nil},
		"nodes are missing":             {[]func(*scene){func(s *scene) { s.plan.Desired, s.plan.Unbound = 5, 2 }}, outcome.Wait, infrav1.WaitingForNodesReason, []string{"3 of 5"}, nil},
		"no node is Ready for Machines": {[]func(*scene){settled, func(s *scene) { s.plan.Unbound = 2 }}, outcome.Wait, infrav1.WaitingForNodesReason, []string{"2 Machines"}, nil},
		"nodes are not initialized": {[]func(*scene){settled, func(s *scene) {
			s.plan.Unbound, s.nodes.Workers = 1, []corev1.Node{*nodeWith(), *nodeWith(taint(uninitializedTaint), func(n *corev1.Node) { n.Name = "n9" })}
		}}, outcome.Wait, infrav1.WaitingForNodesReason, []string{"cloud controller", "n9", uninitializedTaint}, []string{"w,"}},
		"the pool has too few nodes":       {[]func(*scene){settled, func(s *scene) { s.plan.Missing = 2 }}, outcome.Wait, infrav1.WaitingForNodesReason, []string{"pool", "2"}, nil},
		"the portal insists on one worker": {[]func(*scene){insists}, outcome.Done, "", []string{"refuses"}, nil},
		"an adopted cluster has too many": {[]func(*scene){func(s *scene) { s.Record.Size = operation.SizeUnknown }}, outcome.Wait, infrav1.NodesUnclaimedReason,
			[]string{"1 of 3", "adopted", "replicas"}, nil},
		"a node has no Machine yet": {[]func(*scene){func(*scene) {}}, outcome.Wait, infrav1.NodesUnclaimedReason, []string{"1 of 3"}, []string{"adopted"}},
		"nodes are not Ready":       {[]func(*scene){settled, notReadyNodes("n2", "n1")}, outcome.Wait, infrav1.NodesNotReadyReason, []string{"n1, n2", "portal"}, nil},
		"drained nodes wait": {[]func(*scene){settled, func(s *scene) { s.plan.Desired, s.plan.Drained = 1, []string{"n3", "n2"} }},
			outcome.Wait, infrav1.ScalingDownReason, []string{"n2, n3"}, nil},
		"any of the workers may go": {[]func(*scene){func(s *scene) { s.plan.AnyMayGo = true }}, outcome.Stalled, infrav1.OrderUnknownReason,
			[]string{"3", "2", "spec.removalOrder", "Expected"}, nil},
		"core has yet to delete": {[]func(*scene){settled, func(s *scene) { s.plan.Desired = 1 }}, outcome.Wait, infrav1.ScalingDownReason, []string{"3", "1", "core"}, nil},
		"one Machine drains":     {[]func(*scene){machinesDrain("m1")}, outcome.Wait, infrav1.DrainingReason, []string{"draining 1 Machine before", "m1"}, nil},
		"ready":                  {[]func(*scene){settled}, outcome.Done, "", nil, nil},
		"ready, and a MachineDeployment is paused": {[]func(*scene){settled, noted("MachineDeployment w is paused")}, outcome.Done, "",
			[]string{"MachineDeployment w is paused"}, nil},
		"ready, autoscaled, and the Pods cannot be listed": {[]func(*scene){settled, scaledBy(""), func(s *scene) { s.pins.problem = "no quorum" }}, outcome.Done,
			infrav1.ScaleDownDisabledReason, []string{"autoscaler", "no quorum"}, nil},
		"ready, adopted with other control nodes": {[]func(*scene){settled, adoptedWith(3, 1)}, outcome.Done, "", []string{"3 control nodes", "spec.replicas is 1"}, nil},
		"ready, adopted with as many":             {[]func(*scene){settled, adoptedWith(3, 3)}, outcome.Done, "", nil, []string{"control"}},
		"the namespace goes": {[]func(*scene){settled, func(s *scene) { s.desired.ending, s.Cluster.Namespace = true, "fleet" }}, outcome.Blocked,
			infrav1.DeletingReason, []string{"namespace fleet"}, nil},
		"ready, autoscaled, no order": {[]func(*scene){settled, scaledBy("Random")}, outcome.Done, infrav1.ScaleDownDisabledReason,
			[]string{"autoscaler", "spec.removalOrder"}, nil},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := passed(test.changes...)
			o := s.outcome(&s.Pass, s.drains)
			if o.Kind != test.kind || o.Reason != test.reason || o.RequeueAfter != 0 {
				t.Errorf("%+v, want kind %d and %s", o, test.kind, test.reason)
			}
			rest, found := o.Message, false
			for _, name := range test.names {
				if _, rest, found = strings.Cut(rest, name); !found {
					t.Errorf("%q does not name %q after %v", o.Message, name, test.names)
				}
			}
			if i := slices.IndexFunc(test.hides, func(name string) bool { return strings.Contains(o.Message, name) }); i >= 0 {
				t.Errorf("%q names %q", o.Message, test.hides[i])
			}
			slices.Reverse(s.plan.Draining)
			slices.Reverse(s.plan.DrainingNodes)
			slices.Reverse(s.plan.Mismatched)
			slices.Reverse(s.plan.NotReady)
			slices.Reverse(s.plan.Drained)
			if again := s.outcome(&s.Pass, s.drains); again != o {
				t.Errorf("the message depends on the order: %q, %q", o.Message, again.Message)
			}
		})
	}
}

func machinesDrain(names ...string) func(*scene) { return func(s *scene) { s.plan.Draining = names } }
func nodesDrain(names ...string) func(*scene) {
	return func(s *scene) { s.plan.DrainingNodes = names }
}
func notReadyNodes(names ...string) func(*scene) { return func(s *scene) { s.plan.NotReady = names } }

func mismatched(names ...string) func(*scene) {
	return func(s *scene) {
		s.plan.Mismatched, s.Record.Workers = names, &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	}
}

// adoptedWith is an adopted cluster with so many control nodes, under an object that names another number.
func adoptedWith(controls int, replicas int32) func(*scene) {
	return func(s *scene) {
		s.Record.TakenOver, s.ControlPlane.Spec.Replicas = true, &replicas
		for range controls {
			s.nodes.others = append(s.nodes.others, *nodeWith(taint(controlMarks[0])))
		}
	}
}

func noted(note string) func(*scene) { return func(s *scene) { s.desired.notes = []string{note} } }

// insists is a portal that has refused a cluster without workers.
func insists(s *scene) {
	s.plan.Desired, s.desired.stays, s.plan.Free, s.plan.Present = 1, 1, 1, s.plan.Present[:1]
}

// scaledBy lets the cluster autoscaler scale, at a portal whose order the user has set.
func scaledBy(order infrav1.RemovalOrder) func(*scene) {
	return func(s *scene) { s.desired.autoscaled, s.ControlPlane.Spec.RemovalOrder = true, order }
}

// TestLostScaleOutcome checks WorkersReady while the answer to a scale is lost: the pass runs again when the request may be sent
// again, and the message does not change until then.
func TestLostScaleOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := operation.Operation{Type: operation.Scale, From: 3, Target: "5", Unknown: "cut off at 10:00", Time: metav1.Now()}
		s := passed(settled, machinesDrain("m1"), inFlight(lost))
		first := s.outcome(&s.Pass, s.drains)
		if first.Kind != outcome.Wait || first.Reason != infrav1.AnswerLostReason || first.RequeueAfter != s.Op().ResendIn() || first.RequeueAfter == 0 {
			t.Errorf("%+v", first)
		}
		for _, word := range []string{"from 3 to 5", "3 worker nodes"} {
			if !strings.Contains(first.Message, word) {
				t.Errorf("%q does not name %q", first.Message, word)
			}
		}
		time.Sleep(10 * time.Second)
		if later := s.outcome(&s.Pass, s.drains); later.Message != first.Message || later.RequeueAfter != first.RequeueAfter-10*time.Second {
			t.Errorf("10 s later: %+v, first %+v", later, first)
		}
		s.plan.Present = s.plan.Present[:2]
		if later := s.outcome(&s.Pass, s.drains); later.Message == first.Message {
			t.Errorf("a node less: %+v", later)
		}
	})
}
