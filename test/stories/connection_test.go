// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// version asks the API server for its version with the stored kubeconfig, as a user does.
func (s *story) version() error {
	stored := &corev1.Secret{}
	if err := s.Box.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name + "-kubeconfig"}, stored); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(stored.Data["value"])
	if err != nil {
		return err
	}
	config.Timeout = 10 * time.Second
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	_, err = d.ServerVersion()
	return err
}

// TestRotation makes the portal replace the credentials of a running cluster, move its endpoint, and replace its certificate authority. Each
// time, users of the stored kubeconfig are connected again, and the provider adds one more worker, for which it has to read Nodes over a new
// connection. How soon is checked in virtual time: TestLossAndReturn of controllers/workload has the time until a loss is noticed, and
// TestFetchesWhatNoLongerWorks of controllers/portalcontrolplane the time until another kubeconfig is used.
func TestRotation(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	for i, what := range []emulator.Rotation{{Credentials: true}, {Endpoint: true}, {Authority: true}} {
		begin := time.Now()
		s.Expect(s.Box.Portal.Rotate(s.Context(), s.PortalClusters()[0].ID, what)).To(Succeed())
		s.scale(int32(3 + i))
		s.Eventually(s.version).Should(Succeed(), "users, %s", what)
		users := time.Since(begin)
		s.Eventually(func() int { return s.asked(scaleRequest) }).Should(Equal(i+1), "requests of the provider, %s", what)
		s.Logf("%s: users were connected again after %.1f s, the provider after %.1f s", what, users.Seconds(), time.Since(begin).Seconds())
		s.Eventually(s.Condition(s.controlPlane, infrav1.ConnectedCondition)).Should(HavePrefix("True"))
		s.settled(3 + i)
	}
	s.end()
}
