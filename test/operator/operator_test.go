// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestOperator installs the previous release, replaces it by this one, and removes it.
func TestOperator(t *testing.T) {
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("operator", accounts.Next(t)))}
	f.ClusterName = "prod"
	f.startOperator()
	f.kubelet = f.StartKubelet(previous, current, f.coreImage())

	f.Apply(f.example(previous)...)
	f.provideCore()
	f.provide(previous)
	f.runs(previous)
	f.Expect(f.coreArguments()).To(ContainElement(MatchRegexp("^--feature-gates=.*ClusterTopology=true")), "flags of core")
	f.Expect(f.Policies()).To(Equal(f.HasSpecsOf(previous)))
	cluster := suite.NewResident(f.Fixture)

	f.provide(current)
	f.Apply(f.example(current)...)
	f.runs(current)
	pods := f.kubelet.Pods()
	f.Expect(pods).To(HaveLen(2), "managers that were started")
	f.Expect(pods[0].Image).To(Equal(previous.Image()))
	f.Expect(pods[1].Image).To(Equal(current.Image()))
	f.Expect(pods[0].Ended.IsZero()).To(BeFalse(), "the old manager has ended")
	f.Expect(pods[0].Ended).To(BeTemporally("<", pods[1].Started), "the old manager had ended when the new one started")
	f.Expect(f.Policies()).To(ConsistOf(append(f.HasSpecsOf(current), suite.DroppedPolicies()...)), "policies: the operator leaves those that a release drops")
	cluster.Outlives()
	cluster.Remove()
	f.remove()
}

// remove deletes the provider as docs/install.md describes. The operator leaves what is in no namespace.
func (f *fixture) remove() {
	f.Helper()
	provider, crds := f.provider(), f.CRDs()
	f.Expect(box.Client.Delete(f.Context(), provider)).To(Succeed())
	f.Eventually(f.Gone(provider)).Should(BeTrue(), "the InfrastructureProvider is gone")
	f.Eventually(f.kubelet.Running).Should(BeEmpty(), "managers that run")
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		f.Expect(f.ours(list)).To(BeEmpty(), "%T", list)
	}
	clusterWide := []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}}
	for _, list := range clusterWide {
		f.Expect(f.ours(list)).NotTo(BeEmpty(), "%T that the operator leaves", list)
	}
	f.Expect(f.Policies()).To(ConsistOf(append(f.HasSpecsOf(current), suite.DroppedPolicies()...)), "policies that the operator leaves")
	f.Expect(crds).NotTo(BeEmpty())
	f.Expect(f.CRDs()).To(Equal(crds), "CRDs that the operator leaves")
	f.Expect(box.Client.Get(f.Context(), client.ObjectKey{Name: provider.GetNamespace()}, &corev1.Namespace{})).To(Succeed())

	f.Kubectl("delete", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings",
		"--selector", "cluster.x-k8s.io/provider=infrastructure-portal")
	f.Expect(f.Policies()).To(BeEmpty())
	for _, list := range clusterWide {
		f.Expect(f.ours(list)).To(BeEmpty(), "%T", list)
	}
}
