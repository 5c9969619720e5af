// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// check is a MachineHealthCheck that acts on conditions of Nodes, of Machines, or both.
func check(cluster string, nodes []clusterv1.UnhealthyNodeCondition, machines ...clusterv1.UnhealthyMachineCondition) (c clusterv1.MachineHealthCheck) {
	c.Spec.ClusterName = cluster
	c.Spec.Checks.UnhealthyNodeConditions, c.Spec.Checks.UnhealthyMachineConditions = nodes, machines
	return c
}

// TestHealthChecks checks for which conditions a MachineHealthCheck would replace a Machine. Those of other Clusters do not count.
func TestHealthChecks(t *testing.T) {
	disk := []clusterv1.UnhealthyNodeCondition{{Type: "DiskBroken", Status: corev1.ConditionTrue}}
	away := []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	license := clusterv1.UnhealthyMachineCondition{Type: "Licensed", Status: metav1.ConditionFalse}
	tests := map[string]struct {
		checks        []clusterv1.MachineHealthCheck
		node, machine string // condition and status
		sick, suspect bool
	}{
		"no check":                       {nil, "DiskBroken True", "Licensed False", false, false},
		"a condition that it names":      {[]clusterv1.MachineHealthCheck{check("prod", disk)}, "DiskBroken True", "", true, false},
		"of another status":              {[]clusterv1.MachineHealthCheck{check("prod", disk)}, "DiskBroken False", "", false, false},
		"one of several":                 {[]clusterv1.MachineHealthCheck{check("prod", away)}, "Ready Unknown", "", true, false},
		"another Cluster's check":        {[]clusterv1.MachineHealthCheck{check("test", disk, license)}, "DiskBroken True", "Licensed False", false, false},
		"a Machine's own condition":      {[]clusterv1.MachineHealthCheck{check("prod", nil, license)}, "", "Licensed False", false, true},
		"of another status, a Machine's": {[]clusterv1.MachineHealthCheck{check("prod", nil, license)}, "", "Licensed True", false, false},
		"a Node's does not count for it": {[]clusterv1.MachineHealthCheck{check("prod", disk)}, "", "DiskBroken True", false, false},
		"nor a Machine's for the Node":   {[]clusterv1.MachineHealthCheck{check("prod", nil, license)}, "Licensed False", "", false, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
			checks, n, m := healthChecksOf(cluster, test.checks), nodeWith(), &clusterv1.Machine{}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse}}
			if kind, status, found := strings.Cut(test.node, " "); found {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status)})
			}
			if kind, status, found := strings.Cut(test.machine, " "); found {
				m.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status)}}
			}
			if got := checks.nodeUnhealthy(n); got != test.sick {
				t.Errorf("sick: %t", got)
			}
			if got := checks.machineUnhealthy(m); got != test.suspect {
				t.Errorf("suspect: %t", got)
			}
		})
	}
}
