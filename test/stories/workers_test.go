// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Requests as Changes returns them.
const (
	createRequest = "POST kubernetes-clusters 202"
	scaleRequest  = "POST scale 202"
	deleteRequest = "DELETE {cluster_id} 202"
)

// sameNodes waits until the Node objects match the machines that the portal runs, and none of them is cordoned.
func (s *story) sameNodes() {
	s.Helper()
	s.Eventually(func(g Gomega) {
		var want, have []string
		for _, i := range s.Box.Portal.Instances() {
			if i.ClusterID == s.PortalClusters()[0].ID {
				want = append(want, i.Name)
			}
		}
		for _, n := range s.AllNodes() {
			have = append(have, n.Name)
			g.Expect(n.Spec.Unschedulable).To(BeFalse(), "Node %s stays cordoned", n.Name)
		}
		g.Expect(have).To(ConsistOf(want), "Nodes, compared with the machines that the portal runs")
	}).Should(Succeed())
}

// TestScaleFollowsReplicas scales up and down, and deletes the whole manifest in reverse order. The speed of the host decides how many steps the
// scale-down takes. TestReplicas of test/world has more changes, in virtual time.
func TestScaleFollowsReplicas(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.PortalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"}
	s.apply()
	s.settled(2)
	s.Expect(s.row()).To(And(HaveKeyWithValue("Available", "True"), HaveKeyWithValue("Ready", "True"),
		HaveKeyWithValue("Reason", infrav1.ReadyReason), HaveKeyWithValue("Version", s.ControlPlane.Spec.Version)))
	s.scale(4)
	s.settled(4)
	s.scale(1)
	s.settled(1)
	s.sameNodes()
	s.Expect(s.PortalClusters()[0].Size).To(Equal(1))
	s.end()
	changes := slices.Compact(s.Changes())
	s.Expect(changes).To(Equal([]string{"POST networks 201", createRequest, scaleRequest, deleteRequest}), "with all scales as one")
}

// row returns what kubectl get prints for the control plane, by column.
func (s *story) row() map[string]any {
	s.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(s.Box.Config)
	s.Expect(err).NotTo(HaveOccurred())
	raw, err := api.RESTClient().Get().AbsPath("/apis", infrav1.GroupVersion.String(), "namespaces", s.Namespace, "portalcontrolplanes", name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	table, row := metav1.Table{}, map[string]any{}
	s.Expect(json.Unmarshal(raw, &table)).To(Succeed())
	for i, column := range table.ColumnDefinitions {
		row[column.Name] = table.Rows[0].Cells[i]
	}
	return row
}

// TestBlockedDrainHoldsTheScaleDown protects a Pod with a PodDisruptionBudget. The provider must not ask the portal to remove
// a node until the Pod can be evicted.
func TestBlockedDrainHoldsTheScaleDown(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.scale(3)
	s.settled(3)
	newest := slices.MaxFunc(s.Machines(), func(a, b clusterv1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	budget := s.protect(newest.Status.NodeRef.Name)
	s.scale(2)
	s.Eventually(s.Condition(s.ControlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.DrainingReason), ContainSubstring(newest.Name), ContainSubstring("default/precious")))
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest}), "only the scale-up before")
	s.Expect(s.Workload().Delete(s.Context(), budget)).To(Succeed())
	s.settled(2)
	s.noPodWasKilled(1)
	s.sameNodes()
	s.end()
}

// protect runs a Pod on the node that no eviction may end, and waits until its budget knows the Pod.
func (s *story) protect(node string) *policyv1.PodDisruptionBudget {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "precious", Labels: map[string]string{"app": "precious"}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
	}}
	workload := s.Workload()
	s.Expect(workload.Create(s.Context(), &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "precious"}},
	}})).To(Succeed())
	s.Expect(workload.Create(s.Context(), budget)).To(Succeed())
	s.Eventually(func() int32 {
		_ = workload.Get(s.Context(), client.ObjectKeyFromObject(budget), budget)
		return budget.Status.CurrentHealthy
	}).Should(BeEquivalentTo(1), "Pods that the budget counts")
	return budget
}

// noPodWasKilled checks that the portal removed this number of nodes by scaling down, each of them cordoned and empty.
func (s *story) noPodWasKilled(removed int) {
	s.Helper()
	var harm []string
	s.Eventually(func() (nodes int) {
		harm = nil
		for _, e := range s.RequestLog() {
			if e.Removal == nil || e.Removal.By != emulator.JobScaleCluster {
				continue
			}
			nodes++
			if !e.Removal.Cordoned || len(e.Removal.Pods)+len(e.Removal.Terminating) > 0 {
				harm = append(harm, fmt.Sprintf("%s: %s", e.ID, e.Removal))
			}
		}
		return nodes
	}).Should(Equal(removed))
	s.Expect(harm).To(BeEmpty(), "nodes that the portal removed while they were not drained")
}
