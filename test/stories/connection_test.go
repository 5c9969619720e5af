// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestRotation makes the portal replace the credentials of a running cluster, move its endpoint, and replace its certificate authority. Each
// time, users of the stored kubeconfig are connected again, and the provider adds one more worker, for which it has to read Nodes over a new
// connection. How soon is checked in virtual time: TestLossAndReturn of controllers/portalcontrolplane/access/workload has
// the time until a loss is noticed, and TestFetchesWhatNoLongerWorks of controllers/portalcontrolplane the time until another kubeconfig is used.
func TestRotation(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	for i, what := range []emulator.Rotation{{Credentials: true}, {Endpoint: true}, {Authority: true}} {
		s.Expect(s.Box.Portal.Rotate(s.Context(), s.PortalClusters()[0].ID, what)).To(Succeed())
		s.scale(int32(3 + i))
		s.Eventually(func() error { return s.Workload().List(s.Context(), &corev1.NodeList{}) }).Should(Succeed(), "users, %s", what)
		s.settled(3 + i)
	}
	s.end()
}
