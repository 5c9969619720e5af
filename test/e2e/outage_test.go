// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	outage = 2 * time.Minute
	// knocks is the maximum number of failed requests during the outage: one in 5 s for each of two Clusters.
	knocks = 48
)

// portalAway checks that clusters stay as they are while the portal returns 503, as in maintenance. Requested changes wait, report why, and
// are made once afterwards. The provider notices the end of a job that was running.
func portalAway(t *testing.T) {
	s := prepareSubject(t)
	busy := s.another("busy")
	for _, each := range []*subject{s, busy} {
		each.apply(each.generate("", 1))
	}
	s.settled(1)
	busy.settled(1)
	busy.scaleTo(2)
	s.Eventually(busy.job).WithPolling(50*time.Millisecond).ShouldNot(BeEmpty(), "the scale's job in the annotation")
	asked := len(s.requestLog(s.Context()))
	s.strike(emulator.Fault{Status: http.StatusServiceUnavailable})
	s.scaleTo(2)
	s.Eventually(s.says(infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.PortalUnavailableReason))
	s.Consistently(func() string {
		return s.condition(s.Context(), &clusterv1.Cluster{}, clusterv1.ClusterControlPlaneAvailableCondition)
	}, outage, 5*time.Second).Should(HavePrefix("True"), "the workload cluster does not need the portal")
	vain := s.requests(asked)
	s.Expect(len(vain)).To(And(BeNumerically(">", 2), BeNumerically("<=", knocks)), "requests while the portal was away: %q", vain)
	s.Expect(env.portal.removeFault(s.Context(), s.namespace)).To(Succeed())

	s.settled(2)
	busy.settled(2)
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Creating", "Scaling size 1 → 2", "Scaling size 1 → 2"}))
	busy.delete()
	s.remove()
	s.Expect(busy.portalClusters(s.Context())).To(BeEmpty(), "clusters left at the portal")
}
