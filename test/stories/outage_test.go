// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// readRoutes are the GETs of a cluster's life.
var readRoutes = []string{"/vpcs", "/kubernetes-versions", "/jobs/{job_id}", "/kubernetes-clusters/{cluster_id}/config", "/instances"}

// TestPortalIsAway has the portal answer everything with 503, as in maintenance. The Cluster stays available, and the portal gets a request
// every 5 seconds at most. A change waits, reports why, and is made once afterwards.
func TestPortalIsAway(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.strike(emulator.Fault{Status: http.StatusServiceUnavailable})
	s.scale(3)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.PortalUnavailableReason))
	before := s.requests()
	s.Consistently(s.Condition(s.cluster, clusterv1.ClusterControlPlaneAvailableCondition), time.Minute, slowPolling).Should(HavePrefix("True"))
	s.Expect(s.requests()-before).To(BeNumerically("<=", 12), "requests in a minute")
	s.Expect(s.Box.Portal.RemoveFault(s.Namespace)).To(BeTrue())
	s.settled(3)
	s.Expect(s.resizes()).To(Equal([][2]int{{2, 3}}))
	s.end()
}

// TestLoadBalancerAnswers404 has a load balancer answer 404 with a page to each GET of a cluster's life for ten seconds, as it does while
// the portal restarts behind it. The portal gets one creation and one of each change, and no condition asks a person for anything.
func TestLoadBalancerAnswers404(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	seen := s.watchReasons(infrav1.OutcomeUnknownReason, infrav1.AnswerLostReason, infrav1.PortalClusterGoneReason,
		infrav1.AccountChangedReason, infrav1.RefusedReason, infrav1.JobFailedReason)
	phase := 0
	outage := func() {
		phase++
		for _, route := range readRoutes {
			s.strike(emulator.Fault{ID: fmt.Sprint(s.Namespace, phase, route), Method: http.MethodGet, Path: route, For: 10 * time.Second,
				Status: http.StatusNotFound, Body: emulator.BodyHTML})
		}
	}
	outage()
	s.apply()
	s.settled(2)
	outage()
	s.scale(3)
	s.settled(3)
	outage()
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).Should(HavePrefix("False"))
	s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).WithPolling(slowPolling).Should(HavePrefix("True"))
	s.settled(3)
	outage()
	s.end()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest, "POST upgrade 202", "DELETE {cluster_id} 202"}))
	s.Expect(seen()).To(BeEmpty(), "conditions that ask a person")
	hits := s.notFound()
	s.Logf("answers 404: %v", hits)
	s.Expect(hits["/jobs/{job_id}"]).To(BeNumerically(">=", 4), "each job")
	s.Expect(hits["/kubernetes-clusters/{cluster_id}/config"]).To(BeNumerically(">=", 2), "the first kubeconfig, and the one after the upgrade")
	s.Expect(hits["/vpcs"]).To(BeNumerically(">=", 1))
	s.Expect(hits["/kubernetes-versions"]).To(BeNumerically(">=", 1))
}

// notFound counts the GETs that were answered with 404, by route.
func (s *story) notFound() map[string]int {
	hits := map[string]int{}
	for _, e := range s.RequestLog() {
		if e.IsRequest() && e.Method == http.MethodGet && e.Status == http.StatusNotFound {
			hits[e.Route]++
		}
	}
	return hits
}

// watchReasons reads the provider's objects several times a second. The function that it returns stops this, and returns the conditions
// with one of the reasons that were seen.
func (s *story) watchReasons(reasons ...string) (stop func() []string) {
	ctx, cancel := context.WithCancel(s.Context())
	var looks sync.WaitGroup
	var seen []string
	note := func(of string, all []metav1.Condition) {
		for _, c := range all {
			text := fmt.Sprintf("%s %s: %s: %s", of, c.Type, c.Reason, c.Message)
			if slices.Contains(reasons, c.Reason) && !slices.Contains(seen, text) {
				seen = append(seen, text)
			}
		}
	}
	key := client.ObjectKeyFromObject(s.cluster)
	looks.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			controlPlane, portalCluster := &infrav1.PortalControlPlane{}, &infrav1.PortalCluster{}
			if s.Box.Client.Get(ctx, key, controlPlane) == nil {
				note("PortalControlPlane", controlPlane.Status.Conditions)
			}
			if s.Box.Client.Get(ctx, key, portalCluster) == nil {
				note("PortalCluster", portalCluster.Status.Conditions)
			}
		}
	})
	s.Cleanup(cancel)
	return func() []string {
		cancel()
		looks.Wait()
		return seen
	}
}

// TestResolvedCreation loses the answer to a creation. A person finds the cluster at the portal, and sets its id as the message asks for.
// Later kubectl delete cluster deletes the portal cluster, because an instance shows the generated name at that id. In the second story
// the person names another cluster, which the deletion leaves at the portal.
func TestResolvedCreation(t *testing.T) {
	t.Parallel()
	for title, other := range map[string]bool{"its own cluster": false, "another cluster": true} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.strike(emulator.Fault{Method: "POST", Path: routeClusters, Cut: true, After: true, Count: 1})
			person := s.person()
			s.apply()
			s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(And(
				HavePrefix("False "+infrav1.OutcomeUnknownReason), ContainSubstring("The cluster is later deleted with this object if")))
			s.Eventually(func() emulator.ClusterState { return s.PortalClusters()[0].State }).Should(Equal(emulator.ClusterRunning))
			id, policy, says := s.PortalClusters()[0].ID, infrav1.DeletionPolicy(""), "so this object created it. When this object is deleted, deletionPolicy Delete applies"
			if other {
				id, policy = s.createByHand(person, s.PortalClusters()[0]), infrav1.DeletionPolicyRetain
				says = "which this object did not create. When this object is deleted, deletionPolicy Retain applies"
			}
			suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
			s.settled(2)
			s.Expect(s.live().Spec.DeletionPolicy).To(Equal(policy))
			s.Expect(s.events()).To(ContainElement(And(ContainSubstring(id), ContainSubstring(says))))
			if !other {
				s.rejectsAnotherTemplate()
			}

			s.Expect(s.Box.Client.Delete(s.Context(), s.cluster)).To(Succeed())
			s.Eventually(s.Gone(s.controlPlane)).Should(BeTrue())
			if other {
				s.Expect(s.Changes()).To(Equal([]string{"POST kubernetes-clusters 0", createRequest}), "the second creation is the person's")
				s.Expect(s.PortalClusters()).To(HaveLen(2))
			} else {
				s.Expect([]int{s.asked("POST kubernetes-clusters"), s.asked("DELETE")}).To(Equal([]int{1, 1}))
				s.Expect(s.PortalClusters()).To(BeEmpty(), "nothing is billed")
			}
			s.deleteAll()
		})
	}
}

// rejectsAnotherTemplate adds a MachineDeployment that asks for other workers than the portal cluster was created with. The provider
// says so.
func (s *story) rejectsAnotherTemplate() {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: "large"}
	template, deployment := newTemplate(meta, "large"), newDeployment(meta, 1)
	s.Create(template)
	s.Create(deployment)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.TemplateNotHonoredReason))
	s.Expect(s.Box.Client.Delete(s.Context(), deployment)).To(Succeed())
	s.Eventually(s.Gone(deployment)).Should(BeTrue())
}
