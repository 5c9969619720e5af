// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch

// healthChecks are the conditions that the MachineHealthChecks of a Cluster act on. Their timeouts do not matter here: a Machine is
// protected from remediation as long as a condition holds that will lead to it.
type healthChecks struct {
	nodes    []clusterv1.UnhealthyNodeCondition
	machines []clusterv1.UnhealthyMachineCondition
}

// healthChecks reads the MachineHealthChecks of the Cluster.
func (r *Reconciler) healthChecks(ctx context.Context, s *scope) (healthChecks, error) {
	all := &clusterv1.MachineHealthCheckList{}
	if err := r.Client.List(ctx, all, client.InNamespace(s.cluster.Namespace)); err != nil {
		return healthChecks{}, err
	}
	return healthChecksOf(s.cluster, all.Items), nil
}

func healthChecksOf(cluster *clusterv1.Cluster, all []clusterv1.MachineHealthCheck) (checks healthChecks) {
	for _, check := range all {
		if check.Spec.ClusterName == cluster.Name {
			checks.nodes = append(checks.nodes, check.Spec.Checks.UnhealthyNodeConditions...)
			checks.machines = append(checks.machines, check.Spec.Checks.UnhealthyMachineConditions...)
		}
	}
	return checks
}

// sick reports whether a MachineHealthCheck would replace the Machine of the Node.
func (h healthChecks) sick(n *corev1.Node) bool {
	return slices.ContainsFunc(h.nodes, func(c clusterv1.UnhealthyNodeCondition) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(has corev1.NodeCondition) bool { return has.Type == c.Type && has.Status == c.Status })
	})
}

// suspect reports whether a MachineHealthCheck would replace the Machine for one of its own conditions.
func (h healthChecks) suspect(m *clusterv1.Machine) bool {
	return slices.ContainsFunc(h.machines, func(c clusterv1.UnhealthyMachineCondition) bool {
		has := conditions.Get(m, c.Type)
		return has != nil && has.Status == c.Status
	})
}
