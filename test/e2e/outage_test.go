// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	outage = 2 * time.Minute
	// knocks is how many requests may be made in vain meanwhile: one each 5 s, and not more.
	knocks = 24
)

// portalAway: while the portal answers to nobody the cluster stays as it is, what is wanted waits and says why, and
// afterwards it is done, once.
func portalAway(t *testing.T) {
	s := prepareSubject(t)
	s.create(1)
	s.scaleTo(2)
	s.Eventually(s.job).WithPolling(50*time.Millisecond).ShouldNot(BeEmpty(), "the job of the scale in its annotation")
	asked := len(s.journal(s.Context()))
	s.strike(emulator.Fault{Cut: true})
	s.scaleTo(3)
	s.Eventually(s.says(infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.PortalUnavailableReason))
	s.Consistently(func() string {
		return s.condition(s.Context(), &clusterv1.Cluster{}, clusterv1.ClusterControlPlaneAvailableCondition)
	}, outage, 5*time.Second).Should(HavePrefix("True"), "the workload cluster does not need the portal")
	vain := s.requests(asked)
	s.Expect(len(vain)).To(And(BeNumerically(">", 2), BeNumerically("<=", knocks)), "requests while the portal was away: %q", vain)
	s.Expect(env.portal.removeFault(s.Context(), s.namespace)).To(Succeed())

	s.settled(3)
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Scaling size 1 → 2", "Scaling size 2 → 3"}))
	s.remove()
}
