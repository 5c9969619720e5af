// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// home is the namespace of the provider, with the Secrets of PortalClusterIdentities.
const home = "capportal-system"

// share makes the story use a PortalClusterIdentity, which it creates.
func (s *story) share(name string) *infrav1.PortalClusterIdentity {
	s.Helper()
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: name}}
	shared.Spec.SecretRef.Name = name + "-account"
	shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{s.Namespace}}
	s.Create(shared)
	s.secret.Namespace, s.secret.Name = home, shared.Spec.SecretRef.Name
	s.PortalCluster.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
	return shared
}

// loseHome deletes the namespace of the provider while the provider is uninstalled, and installs the provider again. The namespace must end,
// although it has the Secret of an identity in use. A person then creates the Secret again, with the same password, and scales up.
func (s *story) loseHome() {
	box.StopManager()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}
	s.delete(namespace)
	s.Eventually(func() bool {
		return apierrors.IsNotFound(box.Client.Get(s.Context(), client.ObjectKeyFromObject(namespace), namespace))
	}).Should(BeTrue(), "namespace %s is still being deleted", home)
	s.installProvider()
	s.Eventually(s.Condition(s.PortalCluster, infrav1.IdentityReadyCondition)).Should(HavePrefix("False " + infrav1.IdentityNotReadyReason))
	again := s.IdentitySecret(s.secret.Name)
	again.Namespace = home
	s.Create(again)
	suite.Change(s.Fixture, s.Deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
}

// TestMoveWithSharedIdentity moves a namespace that uses a PortalClusterIdentity. clusterctl copies the identity, and its Secret must already
// exist at the target. The provider then releases the identity at the source, where nothing uses it any more.
func TestMoveWithSharedIdentity(t *testing.T) {
	s := newStory(t)
	shared := s.share("moved")
	beforehand := s.secret.DeepCopy()
	s.settle()
	s.Get(shared)
	s.Expect(shared.Finalizers).To(ConsistOf(infrav1.IdentityFinalizer))
	s.Get(s.secret)
	s.Expect(s.secret.Finalizers).To(BeEmpty())

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
		return shared.Finalizers
	}).Should(BeEmpty())
	s.Expect(s.requests()).To(BeEmpty())
}
