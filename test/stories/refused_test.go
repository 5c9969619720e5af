// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestScaleDownIsRefused makes the portal refuse to remove workers, or fail to. The drained nodes stay cordoned, and a further
// scale-down drains one more. The user then raises the replicas one by one, and each time one node becomes schedulable again. TestReasons and
// TestRelease of controllers/claims have the rules, which are the same after failed jobs. The night also shows these.
func TestScaleDownIsRefused(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		fault  emulator.Fault
		reason string
		night  bool
	}{
		"at once":     {emulator.Fault{Status: 422, Code: "INVALID_PARAMETER", Message: "not now"}, infrav1.RefusedReason, false},
		"by its jobs": {emulator.Fault{Job: emulator.JobFails}, infrav1.JobFailedReason, true},
	} {
		t.Run(title, func(t *testing.T) {
			if test.night {
				suite.Nightly(t)
			}
			t.Parallel()
			s := newStory(t)
			s.deployment.Spec.Replicas = ptr.To[int32](3)
			s.apply()
			s.settled(3)
			before := uids(s.Nodes())
			s.placePods()
			test.fault.Method, test.fault.Path = "POST", scalePath
			s.strike(test.fault)
			for _, replicas := range []int{2, 1} {
				s.scale(int32(replicas))
				s.Eventually(s.Machines).Should(HaveLen(replicas))
				s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(
					And(HavePrefix("False "+test.reason), MatchRegexp("[Ss]cale from (at most )?3 to 2 workers")), "one of the nodes that the creation made")
				s.Eventually(s.cordoned).Should(HaveLen(3-replicas), "drained nodes stay drained")
				s.Eventually(s.pods).Should(HaveLen(replicas), "the provider drains only the surplus nodes")
			}
			s.scale(2)
			s.Eventually(s.cordoned).Should(HaveLen(1), "only one drained node becomes schedulable again")
			s.scale(3)
			s.settled(3)
			s.Expect(uids(s.Nodes())).To(ConsistOf(before))
			s.Expect(s.pods()).To(HaveLen(1), "the provider has drained two nodes and no other one")
			s.Expect(s.removals()).To(BeEmpty())
			s.Expect(s.cordoned()).To(BeEmpty())
			s.unmarked()
			s.end()
		})
	}
}

// placePods runs a Pod on each worker node.
func (s *story) placePods() {
	s.Helper()
	for i, n := range s.Nodes() {
		s.Expect(s.Workload().Create(s.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("pod-%d", i)},
			Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		})).To(Succeed())
	}
	s.Eventually(s.pods).Should(HaveEach(HaveSuffix(" Running")))
}

func (s *story) pods() (names []string) {
	s.Helper()
	list := &corev1.PodList{}
	s.Expect(s.Workload().List(s.Context(), list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
	for _, pod := range list.Items {
		names = append(names, fmt.Sprintf("%s %s", pod.Name, pod.Status.Phase))
	}
	return names
}

// cordoned returns the worker Nodes that are unschedulable.
func (s *story) cordoned() []corev1.Node {
	return slices.DeleteFunc(s.Nodes(), func(n corev1.Node) bool { return !n.Spec.Unschedulable })
}
