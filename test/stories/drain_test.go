// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// protect runs a Pod on the node that no eviction may end, and waits until the budgets know the Pod.
func (s *story) protect(node string, budgets ...string) *corev1.Pod {
	s.Helper()
	pod, budget := protectedPod(node)
	workload := s.Workload()
	s.Expect(workload.Create(s.Context(), pod)).To(Succeed())
	for _, name := range budgets {
		budget := budget.DeepCopy()
		budget.Name = name
		s.Expect(workload.Create(s.Context(), budget)).To(Succeed())
		s.Eventually(func() int32 {
			_ = workload.Get(s.Context(), client.ObjectKeyFromObject(budget), budget)
			return budget.Status.CurrentHealthy
		}).Should(BeEquivalentTo(1), "Pods that budget %s counts", name)
	}
	return pod
}

func (s *story) release(budgets ...string) {
	s.Helper()
	for _, name := range budgets {
		_, budget := protectedPod("")
		budget.Name = name
		s.Expect(s.Workload().Delete(s.Context(), budget)).To(Succeed())
	}
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
