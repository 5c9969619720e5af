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
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// readRoutes are the GETs of a cluster's life.
var readRoutes = []string{"/vpcs", "/kubernetes-versions", "/jobs/{job_id}", "/kubernetes-clusters/{cluster_id}/config", "/instances"}

// TestPortalIsAway has the portal answer everything with 503, as in maintenance. The Cluster stays available. A change waits, reports why, and
// is made once afterwards. The test of the same name in controllers/portalcontrolplane counts the requests of ten minutes.
func TestPortalIsAway(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.strike(emulator.Fault{Status: http.StatusServiceUnavailable})
	s.scale(3)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.PortalUnavailableReason))
	s.Expect(s.Condition(s.cluster, clusterv1.ClusterControlPlaneAvailableCondition)()).To(HavePrefix("True"))
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
	s.upgrade("v1.36.3")
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

// watchReasons watches the provider's objects. The function that it returns stops this, and returns the conditions with one of the reasons that
// the objects had at any time.
func (s *story) watchReasons(reasons ...string) (stop func() []string) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	watching, err := suite.WatchClient(s.Box)
	s.Expect(err).NotTo(HaveOccurred())
	var (
		watches sync.WaitGroup
		mu      sync.Mutex
		seen    []string
	)
	note := func(of runtime.Object) {
		getter, ok := of.(conditions.Getter)
		if !ok {
			return // the end of the watch
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range getter.GetConditions() {
			if slices.Contains(reasons, c.Reason) {
				seen = append(seen, fmt.Sprintf("%T %s: %s: %s", of, c.Type, c.Reason, c.Message))
			}
		}
	}
	for _, kind := range []client.ObjectList{&infrav1.PortalControlPlaneList{}, &infrav1.PortalClusterList{}} {
		changes, err := watching.Watch(ctx, kind, client.InNamespace(s.Namespace))
		s.Expect(err).NotTo(HaveOccurred())
		watches.Go(func() {
			for change := range changes.ResultChan() {
				note(change.Object)
			}
		})
	}
	s.Cleanup(cancel)
	return func() []string {
		cancel()
		watches.Wait()
		return slices.Compact(seen)
	}
}
