// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

const createRoute = "/kubernetes-clusters"

// killedInsideTheCall checks a manager that is killed while it waits for the portal's answer, so that the result of the call is unknown.
// The next manager neither creates a second cluster nor forgets the first. It holds the operation, says what to check, and continues with the cluster
// that a person found.
func killedInsideTheCall(t *testing.T) {
	s := prepareSubject(t)
	s.strike(emulator.Fault{Method: http.MethodPost, Path: createRoute, After: true, Delay: time.Minute, Count: 1})
	s.apply(s.generate("", 1))
	s.Eventually(func() ([]emulator.Cluster, error) { return s.portalClusters(s.Context()) }).
		WithPolling(50*time.Millisecond).Should(HaveLen(1), "the portal must begin to create a cluster")
	s.killManager()
	held := s.portalCluster()
	s.Eventually(s.says(infrav1.AvailableCondition)).Should(And(
		HavePrefix("False "+infrav1.OutcomeUnknownReason),
		ContainSubstring("%q", held.Name),
		ContainSubstring("set spec.clusterID to its id"),
		ContainSubstring("kubectl annotate portalcontrolplane"),
	))
	described, err := env.clusterctl.run(s.Context(), s.at, nil, "describe", "cluster", s.name, "--namespace", s.namespace)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(described).To(And(ContainSubstring(infrav1.OutcomeUnknownReason), ContainSubstring("spec.clusterID")), "what clusterctl describes")
	s.Consistently(func() []string { return s.mutations(0) }, 10*time.Second, time.Second).Should(HaveLen(1), "the create must not be repeated")

	change(s, &infrav1.PortalControlPlane{}, func(c *infrav1.PortalControlPlane) {
		c.Spec.ClusterID, c.Spec.DeletionPolicy = held.ID, infrav1.DeletionPolicyDelete
	})
	s.settled(1)
	s.Expect(s.mutations(0)).To(HaveLen(1), "requests that change something")
	s.remove()
}

// strike arms a fault for the subject's account.
func (s *subject) strike(f emulator.Fault) {
	s.Helper()
	f.Account, f.ID = s.account(), s.namespace
	s.Expect(env.portal.inject(s.Context(), f)).To(Succeed())
}

// job returns the id of the job in flight that the provider has stored, or "".
func (s *subject) job() (string, error) {
	controlPlane := &infrav1.PortalControlPlane{}
	if err := s.at.Get(s.Context(), s.key(), controlPlane); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	state, err := operation.Load(controlPlane)
	if state.Op() == nil {
		return "", err
	}
	return state.Op().JobID, err
}

// killManager ends the manager's container without a grace period, and returns when the Deployment's next Pod is ready.
func (s *subject) killManager() {
	s.Helper()
	managers, err := s.managers(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(managers).To(HaveLen(1), "Pods of the manager")
	s.Expect(s.at.Delete(s.Context(), &managers[0], client.GracePeriodSeconds(0))).To(Succeed())
	s.Eventually(func() (ready bool, err error) {
		now, err := s.managers(s.Context())
		for _, pod := range now {
			if pod.UID != managers[0].UID && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready {
				ready = true
			}
		}
		return ready, err
	}).Should(BeTrue(), "another manager must be ready")
}

func (s *subject) managers(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := s.at.List(ctx, list, client.InNamespace(providerNamespace))
	return list.Items, err
}
