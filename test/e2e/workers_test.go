// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// notAt describes what does not run the version yet. It returns "" if all nodes run it.
func (s *subject) notAt(ctx context.Context, version string) (string, error) {
	controlPlane := &infrav1.PortalControlPlane{}
	if err := s.at.Get(ctx, s.key(), controlPlane); err != nil {
		return "", err
	}
	machines := &clusterv1.MachineList{}
	if err := s.at.List(ctx, machines, s.mine()...); err != nil {
		return "", err
	}
	var older []string
	for _, machine := range machines.Items {
		if info := machine.Status.NodeInfo; info == nil || info.KubeletVersion != version {
			older = append(older, machine.Name)
		}
	}
	if controlPlane.Status.Version == version && len(older) == 0 {
		return "", nil
	}
	return fmt.Sprintf("control plane at %s, Machines with nodes of other versions %v\n  PortalControlPlane VersionUpToDate: %s",
		controlPlane.Status.Version, older, s.says(infrav1.VersionUpToDateCondition)()), nil
}

// holders returns the Machine that holds each Node. A deleted Node that was created again counts as another Node.
func (s *subject) holders() map[infrav1.BoundNode]string {
	s.Helper()
	list := &infrav1.PortalMachineList{}
	s.Expect(s.at.List(s.Context(), list, s.mine()...)).To(Succeed())
	all := map[infrav1.BoundNode]string{}
	for _, claim := range list.Items { // claims have the names of their Machines
		if claim.Spec.Node != nil && claim.DeletionTimestamp.IsZero() {
			all[*claim.Spec.Node] = claim.Name
		}
	}
	return all
}

// replaced waits until want of the Nodes have another Machine, and checks that all Nodes still exist.
func (s *subject) replaced(before map[infrav1.BoundNode]string, want int) {
	s.Helper()
	s.Eventually(func() string {
		changed, after := 0, s.holders()
		for node, machine := range before {
			if holder, held := after[node]; held && holder != machine {
				changed++
			}
		}
		if changed == want {
			return ""
		}
		return fmt.Sprintf("%d\n  PortalControlPlane WorkersReady: %s", changed, s.says(infrav1.WorkersReadyCondition)())
	}).Should(BeEmpty(), "Nodes with another Machine, want %d", want)
	s.Expect(slices.Collect(maps.Keys(s.holders()))).To(ConsistOf(slices.Collect(maps.Keys(before))), "Nodes that Machines hold")
}
