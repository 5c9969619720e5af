// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// operation returns the operation that runs at the portal for the story's control plane.
func (s *story) operation() operation.Type {
	if err := s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.controlPlane), s.controlPlane); err != nil {
		return ""
	}
	state, err := operation.Load(s.controlPlane)
	if err != nil || state.Op() == nil || state.Op().JobID == "" {
		return ""
	}
	return state.Op().Type
}

// TestDeleteEverythingAtOnce deletes the whole manifest, including the Secret, in reverse order.
func TestDeleteEverythingAtOnce(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"}
	s.apply()
	s.settled(2)
	for _, o := range slices.Backward(s.objects()) {
		s.Expect(s.Box.Client.Delete(s.Context(), o)).To(Succeed())
	}
	s.gone()
	s.secretIsGone()
	s.Expect(s.Changes()).To(Equal([]string{"POST networks 201", createRequest, "DELETE {cluster_id} 202"}))
	s.Expect(s.events()).To(ContainElement(ContainSubstring("remains at the portal: its API cannot delete networks")))
}

// TestRemainsAreReported checks that the user learns what may remain at the portal, which no object shows after its deletion: the names of
// 60 failed creations, which are more than an event may contain, and a network. A namespace that is being deleted accepts no events, so the
// manager's log has both.
func TestRemainsAreReported(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"}
	s.controlPlane.Spec.Version = "v1.99.0"
	s.apply()
	s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(HavePrefix("False " + infrav1.VersionNotOfferedReason))
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("%s-production-eu-west-%02d", s.Namespace, i))
	}
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		operation.State{Record: operation.Record{UID: cp.UID, Size: operation.SizeUnknown, AbandonedNames: names}}.Put(cp)
	})
	s.Expect(s.Box.Client.Delete(s.Context(), s.controlPlane)).To(Succeed())
	s.Eventually(s.events).Should(ContainElement(And(ContainSubstring("Look for"), ContainSubstring(names[0]))))
	s.Expect(s.Box.Client.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})).To(Succeed())
	s.gone()
	log, err := os.ReadFile(filepath.Join(s.Box.Dir, "manager.log"))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(string(log)).To(ContainSubstring(strings.Join(names, ", ")))
	s.Expect(string(log)).To(MatchRegexp(s.Namespace + ".*NetworkRemains.*created from 10.20.0.0/24, remains at the portal"))
}

// events returns the messages of the namespace's events.
func (s *story) events() (messages []string) {
	list := &corev1.EventList{}
	s.List(list)
	for _, e := range list.Items {
		messages = append(messages, e.Message)
	}
	return messages
}

// TestDeleteInForeground makes the garbage collector delete everything that the Cluster owns. An admission policy refuses these requests,
// and core deletes the objects in its own order.
func TestDeleteInForeground(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.Expect(s.Box.Client.Delete(s.Context(), s.cluster, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	s.gone()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "DELETE {cluster_id} 202"}))
}

// TestProtected checks that deletion protection refuses every deletion except that of clusterctl move, until the user removes it. Nor does
// the deletion of the MachineDeployment remove nodes: a GitOps tool that prunes deletes it too.
func TestProtected(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	protected := map[string]string{infrav1.DeletionProtectionAnnotation: "True"} // every value but "" and "false" protects
	s.cluster.Annotations, s.controlPlane.Annotations = protected, maps.Clone(protected)
	s.apply()
	s.settled(2)
	const way = "first remove the annotation"
	for _, object := range []client.Object{s.controlPlane, s.cluster} {
		s.Expect(s.Box.Client.Delete(s.Context(), object)).To(MatchError(ContainSubstring(way)))
		kind, _ := object.DeepCopyObject().(client.Object)
		s.Expect(s.Box.Client.DeleteAllOf(s.Context(), kind, client.InNamespace(s.Namespace))).To(MatchError(ContainSubstring(way)))
		suite.Change(s.Fixture, object, func(o client.Object) {
			annotations := map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			maps.Copy(annotations, o.GetAnnotations())
			o.SetAnnotations(annotations)
		})
		s.Expect(s.Box.Client.Delete(s.Context(), object, client.DryRunAll)).To(Succeed())
		suite.Change(s.Fixture, object, func(o client.Object) {
			annotations := o.GetAnnotations()
			delete(annotations, clusterctlv1.DeleteForMoveAnnotation)
			o.SetAnnotations(annotations)
		})
	}
	nodes := uids(s.Nodes())
	s.Expect(s.Box.Client.Delete(s.Context(), s.deployment)).To(Succeed())
	s.Eventually(s.Gone(s.deployment)).Should(BeTrue())
	s.deployment.ResourceVersion, s.deployment.UID = "", ""
	s.Create(s.deployment)
	s.settled(2)
	s.sameNodes()
	s.Expect(uids(s.Nodes())).To(ConsistOf(nodes))
	s.Expect(s.Changes()).To(Equal([]string{createRequest}), "no node was removed while there was no MachineDeployment")

	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { delete(c.Annotations, infrav1.DeletionProtectionAnnotation) })
	s.Expect(s.Box.Client.Delete(s.Context(), s.cluster)).To(Succeed())
	s.Eventually(s.Gone(s.deployment)).Should(BeTrue())
	s.Eventually(s.Condition(s.cluster, clusterv1.ClusterDeletingCondition)).Should(
		HavePrefix("True "+clusterv1.ClusterDeletingInternalErrorReason), "core cannot delete the control plane, which is still protected")
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		delete(cp.Annotations, infrav1.DeletionProtectionAnnotation)
	})
	s.gone()
}
