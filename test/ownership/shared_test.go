// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestMoveWithSharedIdentity moves a namespace that uses a PortalClusterIdentity. clusterctl copies the identity, and its Secret must already
// exist at the target. The provider then releases the identity and the Secret at the source, where nothing uses them any more.
func TestMoveWithSharedIdentity(t *testing.T) {
	s := newStory(t)
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "moved"}}
	shared.Spec.SecretRef.Name = "moved-account"
	shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{s.Namespace}}
	s.Create(shared)
	s.secret.Namespace, s.secret.Name = "capportal-system", shared.Spec.SecretRef.Name
	beforehand := s.secret.DeepCopy()
	s.portalCluster.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
	s.settle()
	for _, o := range []client.Object{shared, s.secret} {
		s.Get(o)
		s.Expect(o.GetFinalizers()).To(HaveLen(1), "%T", o)
	}

	there := s.away()
	s.Expect(there.Client.Create(s.Context(), beforehand)).To(Succeed())
	s.begin = len(box.Portal.RequestLog())
	s.move(box, there)
	s.settled(there)
	copied := &infrav1.PortalClusterIdentity{}
	s.Expect(there.Client.Get(s.Context(), client.ObjectKeyFromObject(shared), copied)).To(Succeed())
	s.Expect(copied.Spec).To(Equal(shared.Spec))
	s.Expect(copied.Finalizers).To(ConsistOf(infrav1.IdentityFinalizer))
	s.Eventually(func() []string {
		s.Get(shared)
		s.Get(s.secret)
		return append(shared.Finalizers, s.secret.Finalizers...)
	}).Should(BeEmpty())
	s.Expect(s.requests()).To(BeEmpty())

	s.Expect(there.Client.Delete(s.Context(), s.cluster)).To(Succeed())
	s.Eventually(func() int { return len(s.PortalClusters()) }).Should(BeZero())
	s.Eventually(func() int {
		left, err := list(s.Context(), there.Client, s.Namespace)
		s.Expect(err).NotTo(HaveOccurred())
		return len(left)
	}).Should(BeNumerically("<=", 2), "the templates may stay")
	for _, o := range []client.Object{copied, beforehand, shared, s.secret} {
		at := there.Client
		if o == shared || o == s.secret {
			at = box.Client
		}
		s.Expect(at.Delete(s.Context(), o)).To(Succeed())
	}
}
