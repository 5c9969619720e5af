// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestDeleteInForeground makes the garbage collector delete everything that the Cluster owns. An admission policy refuses these requests,
// and core deletes the objects in its own order.
func TestDeleteInForeground(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.Expect(s.Box.Client.Delete(s.Context(), s.Cluster, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	s.gone()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, deleteRequest}))
}

// TestProtected checks that deletion protection refuses every deletion except that of clusterctl move, until the user removes it.
func TestProtected(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	protected := map[string]string{infrav1.DeletionProtectionAnnotation: "True"} // every value but "" and "false" protects
	s.ControlPlane.Annotations = protected
	s.apply()
	s.Eventually(func() error { return s.Box.Client.Delete(s.Context(), s.Cluster, client.DryRunAll) }).
		WithTimeout(time.Minute).Should(MatchError(ContainSubstring("PortalControlPlane %s is protected", s.ControlPlane.Name)), "core would delete the workers only")
	suite.Change(s.Fixture, client.Object(s.Cluster), func(o client.Object) { o.SetAnnotations(maps.Clone(protected)) })
	refused := MatchError(ContainSubstring("first remove the annotation"))
	for _, object := range []client.Object{s.ControlPlane, s.Cluster} {
		s.Expect(s.Box.Client.Delete(s.Context(), object)).To(refused)
		kind, _ := object.DeepCopyObject().(client.Object)
		s.Expect(s.Box.Client.DeleteAllOf(s.Context(), kind, client.InNamespace(s.Namespace))).To(refused)
		suite.Change(s.Fixture, object, func(o client.Object) { o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation] = "" })
		s.Expect(s.Box.Client.Delete(s.Context(), object, client.DryRunAll)).To(Succeed())
		suite.Change(s.Fixture, object, func(o client.Object) {
			delete(o.GetAnnotations(), clusterctlv1.DeleteForMoveAnnotation)
			delete(o.GetAnnotations(), infrav1.DeletionProtectionAnnotation)
		})
	}
	s.Eventually(func() error { return s.Box.Client.Delete(s.Context(), s.Cluster, client.DryRunAll) }).Should(Succeed(), "the policy has seen it")
	s.end()
}
