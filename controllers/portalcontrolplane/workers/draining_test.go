// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// TestDrainingBeforeUpgrade checks what an upgrade waits for: drains that have begun, and drained nodes that the portal is about to remove.
func TestDrainingBeforeUpgrade(t *testing.T) {
	held, drains := []string{infrav1.PreDrainHook, infrav1.PreTerminateHook}, []string{infrav1.PreTerminateHook}
	ready := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	started, drained := note(infrav1.DrainStartedAnnotation, "2026-01-01T10:00:00Z"), note(infrav1.DrainedAnnotation, "2026-01-01T10:00:00Z")
	scale := func(result operation.Result) *operation.Operation {
		return &operation.Operation{Type: operation.Scale, From: 3, Target: "2", Result: result}
	}
	upgrade := &operation.Operation{Type: operation.Upgrade, Target: "v1.37.0", Result: operation.Failed}
	tests := map[string]struct {
		machine *clusterv1.Machine
		node    *corev1.Node
		last    *operation.Operation
		want    string
	}{
		"nothing":                                {nil, nodeWith(ready), nil, ""},
		"a Machine that stays":                   {machineWith(false, held...), nil, nil, ""},
		"a Machine that is held":                 {machineWith(true, held...), nil, nil, ""},
		"a Machine that core drains":             {machineWith(true, drains...), nil, nil, "Machine m"},
		"a Machine of another provider":          {foreign(machineWith(true, drains...)), nil, nil, ""},
		"a Machine of another Cluster":           {elsewhere(machineWith(true, drains...)), nil, nil, ""},
		"the provider drains a Node":             {nil, nodeWith(ready, started), nil, "Node w"},
		"it drains one after a refusal":          {nil, nodeWith(ready, started), scale(operation.Refused), "Node w"},
		"a Node is drained":                      {nil, nodeWith(ready, drained), nil, "Node w"},
		"drained, and the last scale succeeded":  {nil, nodeWith(ready, drained), scale(operation.Succeeded), "Node w"},
		"drained, and not Ready: it may be gone": {nil, nodeWith(drained), nil, ""},
		"drained, and the portal refuses":        {nil, nodeWith(ready, drained), scale(operation.Refused), ""},
		"drained, and an upgrade was last":       {nil, nodeWith(ready, drained), upgrade, "Node w"},
		"only cordoned":                          {nil, nodeWith(ready, cordon), nil, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(newScheme(t))
			if test.machine != nil {
				builder = builder.WithObjects(test.machine)
			}
			s := passed(func(s *scene) {
				s.Cluster.Namespace, s.Cluster.Name, s.Last = prod.Namespace, prod.Name, test.last
				s.nodes.Workers = []corev1.Node{*nodeWith(ready, func(n *corev1.Node) { n.Name = "another" })}
				if test.node != nil {
					s.nodes.Workers = append(s.nodes.Workers, *test.node)
				}
			})
			var err error
			s.members, err = ReadMembers(t.Context(), builder.Build(), s.Cluster)
			if got := Draining(&s.Pass, s.members, s.nodes); err != nil || got != test.want {
				t.Errorf("waits for %q, want %q; %v", got, test.want, err)
			}
			if test.last != upgrade {
				return
			}
			s.Backoff.Refuse(string(operation.Scale), "2", outcome.WaitFor(time.Second, infrav1.PortalBusyReason, "the portal is busy"))
			if got := Draining(&s.Pass, s.members, s.nodes); got != test.want {
				t.Errorf("while the portal is busy, it waits for %q, want %q", got, test.want)
			}
			s.Backoff.Refuse(string(operation.Scale), "2", outcome.StallFor(0, infrav1.RefusedReason, "the cluster is in state Alert"))
			if got := Draining(&s.Pass, s.members, s.nodes); got != "" {
				t.Errorf("while the portal refuses the scale as well, the upgrade waits for %q", got)
			}
			s.Backoff.Forget(string(operation.Scale))
			s.Record = s.Record.Failed(scale(operation.Failed), metav1.Now())
			if got := Draining(&s.Pass, s.members, s.nodes); got != "" {
				t.Errorf("while the scale has stopped after failures, the upgrade waits for %q", got)
			}
		})
	}
}

// machineWith is a Machine of the Cluster with these hooks.
func machineWith(deleting bool, hooks ...string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}}
	m.Spec.InfrastructureRef.Kind = machineKind
	for _, hook := range hooks {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, hook, "")
	}
	if deleting {
		m.DeletionTimestamp, m.Finalizers = ptr.To(metav1.Now()), []string{clusterv1.MachineFinalizer}
	}
	return m
}

func foreign(m *clusterv1.Machine) *clusterv1.Machine {
	m.Spec.InfrastructureRef.Kind = "OtherMachine"
	return m
}

func elsewhere(m *clusterv1.Machine) *clusterv1.Machine {
	m.Labels[clusterv1.ClusterNameLabel] = "other"
	return m
}
