// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// scale checks the requests that changes of the replicas become. The order of removal is not known, so the first request for fewer
// workers removes one. Whichever nodes the portal removes, each Machine has one node afterwards.
func scale(t *testing.T) {
	s := prepareSubject(t)
	s.create(1)
	s.scaleTo(4)
	s.settled(4)
	s.scaleTo(2)
	s.settled(2)
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Scaling size 1 → 4", "Scaling size 4 → 3", "Scaling size 3 → 2"}))
	s.remove()
}

// upgrade checks that the control plane is upgraded first, together with the nodes. The upgrade of the MachineDeployment then needs no
// request.
func upgrade(t *testing.T) {
	s := prepareSubject(t)
	s.create(2)
	change(s, &infrav1.PortalControlPlane{}, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newerVersion })
	s.Eventually(func() (string, error) { return s.notAt(s.Context(), newerVersion) }).Should(BeEmpty())
	s.settled(2)
	before, asked := s.holders(), len(s.requestLog(s.Context()))

	change(s, s.deployment(), func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = newerVersion })
	s.replaced(before, 2)
	s.settled(2)
	asks := slices.DeleteFunc(s.requests(asked), func(request string) bool { return strings.Contains(request, "/config ") }) // the provider reads the kubeconfig after the upgrade
	s.Expect(asks).To(BeEmpty(), "requests for Machines of the version that the nodes already have")
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Upgrading " + olderVersion + " → " + newerVersion}))
	s.remove()
}

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
