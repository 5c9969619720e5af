// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// These stories check that a scale-down kills no Pod: the provider has drained each node that the portal removes, even if
// requests fail. Each story runs one Pod on each worker node. A node that becomes schedulable again gets a Pod within a
// second, so the stories notice if the portal removes a node that was drained and then uncordoned.

const scalePath = "/kubernetes-clusters/*/scale"

// TestFailedScaleDownKillsNoPod makes the portal refuse a scale-down, fail it, finish half of it, or lose the answer. The provider
// asks again. The nodes that it drained for the first request are still empty when the portal removes them.
func TestFailedScaleDownKillsNoPod(t *testing.T) {
	t.Parallel()
	for title, faults := range map[string][]emulator.Fault{
		"refused twice": {
			{ID: "not-allowed", Code: emulator.CodeOperationNotAllowed, Count: 1}, {ID: "quota", Code: emulator.CodeQuotaExceeded, Nth: 2, Count: 1},
		},
		"job fails":                  {{Job: emulator.JobFails, JobMessage: "an image is being copied", Count: 1}},
		"job half finished":          {{Job: emulator.JobFailsHalfway, JobNodes: 1, Count: 1}},
		"job forgotten":              {{Job: emulator.JobForgotten, JobDelay: 20 * time.Second, Count: 1}},
		"job forgotten and not done": {{ID: "forget", Job: emulator.JobForgotten, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
		"answer lost":                {{Cut: true, After: true, JobDelay: 20 * time.Second, Count: 1}},
		"answer lost and not done":   {{ID: "cut", Cut: true, After: true, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && title != "job half finished" && title != "answer lost" {
				t.Skip("make test-all runs every failure")
			}
			s := newStory(t)
			kept := s.sixWorkers()
			for _, fault := range faults {
				fault.ID += s.Namespace
				fault.Method, fault.Path, fault.Scale = "POST", scalePath, emulator.ScaleDown
				s.strike(fault)
			}
			s.scale(3)
			s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
			s.noPodWasKilled(3)
			s.settled(3)
			s.sameNodes()
			s.Expect(uids(s.Nodes())).To(ConsistOf(kept))
			s.unmarked()
			s.end()
		})
	}
}

// TestWrongGuessCostsOneNode scales down by two at a portal that removes the oldest workers, which the provider does not expect. The first
// request removes one worker, with its Pod. Then the provider knows the order, and drains the next one.
func TestWrongGuessCostsOneNode(t *testing.T) {
	s := newStoryAlone(t)
	s.Expect(s.Box.Portal.SetVictimOrder(emulator.VictimsOldest)).To(Succeed())
	t.Cleanup(func() { s.Expect(s.Box.Portal.SetVictimOrder(emulator.VictimsNewest)).To(Succeed()) })
	s.apply()
	s.settled(2)
	s.scale(5)
	s.settled(5)
	s.onePodPerNode(5, 2)
	s.Get(s.controlPlane)
	s.Expect(s.controlPlane.Status.RemovalOrder).To(Equal(infrav1.RemovalOrderStatus{Order: "Newest", Source: infrav1.RemovalOrderAssumed}))
	s.scale(3)
	s.Eventually(s.removals).Should(HaveLen(2))
	removals := s.removals()
	s.Expect(removals[0].Removal.Pods).NotTo(BeEmpty(), "the portal removes a worker that the provider did not expect")
	s.Expect(removals[1].Removal.Cordoned).To(BeTrue())
	s.Expect(append(removals[1].Removal.Pods, removals[1].Removal.Terminating...)).To(BeEmpty(), "Pods on the second worker")
	s.settled(3)
	s.sameNodes()
	s.unmarked()
	s.Get(s.controlPlane)
	s.Expect(s.controlPlane.Status.RemovalOrder).To(Equal(infrav1.RemovalOrderStatus{Order: "Oldest", Source: infrav1.RemovalOrderObserved}))
	s.Expect(s.resizes()).To(Equal([][2]int{{2, 5}, {5, 4}, {4, 3}}))
	s.end()
}

// TestDeletedMachineAndFewerReplicas deletes the Machine of the node that the portal will remove next, and lowers the replicas
// as soon as the Machine has released the node. No Machine holds the node, so core cannot drain it and the provider does.
func TestDeletedMachineAndFewerReplicas(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.scale(3)
	s.settled(3)
	s.onePodPerNode(3, 2)
	newest := slices.MaxFunc(s.Machines(), func(a, b clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	node := newest.Status.NodeRef.Name
	s.Expect(s.Box.Client.Delete(s.Context(), &newest)).To(Succeed())
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.Machines(), func(m clusterv1.Machine) bool { return m.Name == newest.Name && m.Status.NodeRef.Name == node })
	}).WithPolling(20*time.Millisecond).Should(BeFalse(), "the Machine releases its node")
	s.scale(2)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(2))
	s.noPodWasKilled(1)
	s.settled(2)
	s.sameNodes()
	s.unmarked()
	s.end()
}

// TestFewerReplicasThanBeforeThePortalsPages adds a worker as a person does on the portal's pages, and then lowers the replicas
// as a user does. The portal also removes the added worker, which no Machine has ever held.
func TestFewerReplicasThanBeforeThePortalsPages(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Replicas = ptr.To[int32](1)
	person := s.person()
	s.apply()
	s.settled(1)
	s.scale(2)
	s.settled(2)
	_, err := person.ScaleCluster(s.Context(), s.PortalClusters()[0].ID, 3)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.Nodes).Should(HaveLen(3))
	s.onePodPerNode(3, 1)
	s.scale(1)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(1))
	s.noPodWasKilled(2)
	s.settled(1)
	s.sameNodes()
	s.unmarked()
	s.end()
}

// sixWorkers applies the story and scales it to six workers, each with a Pod. It returns the UIDs of the first three workers.
// They are seconds older than the others, so a portal that removes the newest workers keeps them. The order of removal is set, so that
// one request removes all surplus workers.
func (s *story) sixWorkers() (kept []string) {
	s.Helper()
	s.deployment.Spec.Replicas = ptr.To[int32](3)
	s.controlPlane.Spec.RemovalOrder = "Newest"
	s.apply()
	s.settled(3)
	kept = uids(s.Nodes())
	s.scale(6)
	s.settled(6)
	s.onePodPerNode(6, 3)
	return kept
}

// onePodPerNode runs the Pods, each on another node. A PodDisruptionBudget keeps protected of them available.
func (s *story) onePodPerNode(pods, protected int32) {
	s.Helper()
	workload, web := s.Workload(), suite.OnePodPerNode("web", pods)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: *web.ObjectMeta.DeepCopy(), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(protected)), Selector: web.Spec.Selector,
	}}
	s.Expect(workload.Create(s.Context(), budget)).To(Succeed())
	s.Expect(workload.Create(s.Context(), web)).To(Succeed())
	s.Eventually(func() int { return s.running("web") }).Should(BeEquivalentTo(pods))
	s.Eventually(func() int32 {
		_ = workload.Get(s.Context(), client.ObjectKeyFromObject(budget), budget)
		return budget.Status.DisruptionsAllowed
	}).Should(Equal(pods - protected))
}

// running returns the number of an app's Pods that run and are not being deleted.
func (s *story) running(app string) (n int) {
	s.Helper()
	list := &corev1.PodList{}
	s.Expect(s.Workload().List(s.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app})).To(Succeed())
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// removals returns the request log's entries of the nodes that the portal removed for a smaller size.
func (s *story) removals() []emulator.LogEntry {
	return slices.DeleteFunc(s.RequestLog(), func(e emulator.LogEntry) bool { return e.Removal == nil || e.Removal.By != emulator.JobScaleCluster })
}

// noPodWasKilled checks that the portal removed this number of nodes by scaling down, each of them cordoned and empty.
func (s *story) noPodWasKilled(removed int) {
	s.Helper()
	s.Eventually(s.removals).Should(HaveLen(removed))
	var harm []string
	for _, e := range s.removals() {
		if !e.Removal.Cordoned || len(e.Removal.Pods)+len(e.Removal.Terminating) > 0 {
			harm = append(harm, fmt.Sprintf("%s %s: %s", e.Removal.At.UTC().Format(time.TimeOnly), e.ID, e.Removal))
		}
	}
	s.Expect(harm).To(BeEmpty(), "nodes that the portal removed while they were not drained")
}

// unmarked waits until no node has a mark of a drain.
func (s *story) unmarked() {
	s.Helper()
	s.Eventually(func() (marks []string) {
		for _, n := range s.Nodes() {
			for _, mark := range []string{infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation} {
				if metav1.HasAnnotation(n.ObjectMeta, mark) {
					marks = append(marks, n.Name+" "+mark)
				}
			}
		}
		return marks
	}).Should(BeEmpty())
}
