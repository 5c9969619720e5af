// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// bindingTime is how long a new node may be Ready before its Machine is available. In this time the provider binds the Machine,
// core looks up the Node, and the MachineDeployment counts its Machines. It leaves room for a busy host. If Machines
// got nodes only after the upgrade, two Machines would have no node for 30 seconds or more.
const bindingTime = 25 * time.Second

// TestUpgradeThatReplacesNodesKeepsWorkersAvailable makes the portal replace its nodes one at a time, 30 seconds each. At least
// two of the three workers stay available: a Ready node gets its Machine at once, not after the whole upgrade.
// A MachineHealthCheck sees Machines lose their nodes and replaces none.
func TestUpgradeThatReplacesNodesKeepsWorkersAvailable(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Replicas = ptr.To[int32](3)
	s.apply()
	s.settled(3)
	s.checkHealth(
		clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](10)},
		clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To[int32](10)})
	before, machines := uids(s.Nodes()), s.machineNames()
	s.strike(emulator.Fault{Method: "POST", Path: routeUpgrade, UpgradeStyle: emulator.UpgradeReplace, JobDelay: 2 * time.Minute})
	stop := s.watchAvailable(2)
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	for upgraded := range 3 {
		s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).Should(And(
			HavePrefix("False Upgrading"), HaveSuffix(fmt.Sprintf(". %d of 3 workers run v1.36.3", upgraded))))
		t.Log(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)())
	}
	s.Eventually(func() string { return s.PortalClusters()[0].Version }).Should(Equal("v1.36.3"))
	s.settled(3)
	s.Expect(stop()).To(BeEmpty(), "times when fewer than 2 of 3 workers were available for longer than %s", bindingTime)
	s.Expect(uids(s.Nodes())).NotTo(ContainElement(BeElementOf(before)), "all nodes are new")
	s.Expect(s.machineNames()).To(Equal(machines), "no Machine was replaced")
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "POST upgrade 202"}))
	s.end()
}

// watchAvailable reads the MachineDeployment several times a second. The function that it returns stops this, and returns the
// times at which fewer than least workers were available for longer than bindingTime.
func (s *story) watchAvailable(least int32) (stop func() []string) {
	ctx, cancel := context.WithCancel(s.Context())
	var (
		looks sync.WaitGroup
		gaps  []string
		since time.Time // beginning of a gap, zero without a gap
		low   int32
	)
	end := func() {
		if lasted := time.Since(since); !since.IsZero() && lasted > bindingTime {
			gaps = append(gaps, fmt.Sprintf("from %s for %s, down to %d", since.UTC().Format(time.TimeOnly), lasted.Round(time.Second), low))
		}
		since, low = time.Time{}, least
	}
	looks.Go(func() {
		defer end()
		md := &clusterv1.MachineDeployment{}
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			if err := s.Box.Client.Get(ctx, client.ObjectKeyFromObject(s.deployment), md); err != nil {
				continue
			}
			available := ptr.Deref(md.Status.AvailableReplicas, 0)
			switch {
			case available >= least:
				end()
			case since.IsZero():
				since = time.Now()
			}
			low = min(low, available)
		}
	})
	s.Cleanup(cancel)
	return func() []string {
		cancel()
		looks.Wait()
		return gaps
	}
}
