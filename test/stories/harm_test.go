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
// asks again. The nodes that it drained for the first request are still empty when the portal removes them. TestRandomHistories of
// controllers/claims draws these failures. The night also shows each of them with real Pods and evictions.
func TestFailedScaleDownKillsNoPod(t *testing.T) {
	t.Parallel()
	const always = "job half finished"
	for title, faults := range map[string][]emulator.Fault{
		"refused twice": {
			{ID: "not-allowed", Code: emulator.CodeOperationNotAllowed, Count: 1}, {ID: "quota", Code: emulator.CodeQuotaExceeded, Nth: 2, Count: 1},
		},
		"job fails":                  {{Job: emulator.JobFails, JobMessage: "an image is being copied", Count: 1}},
		always:                       {{Job: emulator.JobFailsHalfway, JobNodes: 1, Count: 1}},
		"job forgotten":              {{Job: emulator.JobForgotten, JobDelay: 20 * time.Second, Count: 1}},
		"job forgotten and not done": {{ID: "forget", Job: emulator.JobForgotten, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
		"answer lost":                {{Cut: true, After: true, JobDelay: 20 * time.Second, Count: 1}},
		"answer lost and not done":   {{ID: "cut", Cut: true, After: true, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
	} {
		t.Run(title, func(t *testing.T) {
			if title != always {
				suite.Nightly(t)
			}
			t.Parallel()
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

// TestDeletedMachineAndFewerReplicas deletes the Machine of the node that the portal will remove next, and lowers the replicas when
// the Machine has released the node. No Machine holds the node, so core cannot drain it and the provider does. The MachineSet is paused
// in the meantime: core would give the node another Machine.
func TestDeletedMachineAndFewerReplicas(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.scale(3)
	s.settled(3)
	s.onePodPerNode(3, 2)
	sets := &clusterv1.MachineSetList{}
	s.List(sets)
	s.Expect(sets.Items).To(HaveLen(1))
	set := &sets.Items[0]
	suite.Change(s.Fixture, set, func(set *clusterv1.MachineSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, clusterv1.PausedAnnotation, "")
	})
	s.Eventually(s.Condition(set, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	s.deleteMachine(slices.MaxFunc(s.Machines(), func(a, b clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}))
	s.scale(2)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(2))
	suite.Change(s.Fixture, set, func(set *clusterv1.MachineSet) { delete(set.Annotations, clusterv1.PausedAnnotation) })
	s.noPodWasKilled(1)
	s.settled(2)
	s.sameNodes()
	s.unmarked()
	s.end()
}

// TestFewerReplicasThanBeforeThePortalsPages adds a worker as a person does on the portal's pages, and lowers the replicas
// as a user does. The portal also removes the added worker, which no Machine has ever held. The Cluster is paused until the new worker has a
// Pod. The provider then waits two minutes before it counts the workers. TestScaledOnThePortalsPages of controllers/portalcontrolplane does
// this in virtual time. Here, the added worker has a Pod that must be evicted.
func TestFewerReplicasThanBeforeThePortalsPages(t *testing.T) {
	suite.Nightly(t)
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Replicas = ptr.To[int32](1)
	person := s.person()
	s.apply()
	s.settled(1)
	s.scale(2)
	s.settled(2)
	s.pause()
	_, err := person.ScaleCluster(s.Context(), s.PortalClusters()[0].ID, 3)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(s.Nodes).Should(HaveLen(3))
	s.scale(1)
	s.onePodPerNode(3, 1)
	s.Expect(s.resizes()).To(Equal([][2]int{{1, 2}, {2, 3}}), "the user's and the person's requests")
	s.resume()
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
