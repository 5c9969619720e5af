// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestFlux installs the previous release, replaces it by this one, lets go of it, and removes it.
func TestFlux(t *testing.T) {
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("flux", accounts.Next(t)))}
	f.ClusterName = "prod"
	f.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "flux-system"}})
	f.startFlux()
	f.kubelet = f.StartKubelet(previous, current)

	f.Apply(f.Example(example)...)
	f.commit(previous)
	f.arrives(previous)
	f.Expect(f.Policies()).To(Equal(f.HasSpecsOf(previous)))
	cluster := suite.NewResident(f.Fixture)

	f.commit(current)
	f.arrives(current)
	f.Expect(f.Policies()).To(Equal(f.HasSpecsOf(current)), "policies: Flux removes those that a release drops")
	pods := f.kubelet.Pods()
	f.Expect(pods).To(HaveLen(2), "managers that were started")
	f.Expect(pods[0].Image).To(Equal(previous.Image()))
	f.Expect(pods[0].Ended.IsZero()).To(BeFalse(), "the old manager has ended")
	f.Expect(pods[1].Image).To(Equal(current.Image()))
	cluster.Outlives()

	kustomization := f.kustomization()
	f.Expect(box.Client.Delete(f.Context(), kustomization)).To(Succeed())
	f.Eventually(f.Gone(kustomization)).Should(BeTrue(), "the Kustomization is gone")
	f.Expect(f.Policies()).To(Equal(f.HasSpecsOf(current)), "policies of a Kustomization that is gone")
	f.Expect(f.kubelet.Running()).To(Equal([]string{current.Image()}), "managers after the Kustomization is gone")
	f.Apply(f.Example(example)...)
	f.arrives(current)
	f.Expect(f.kubelet.Pods()).To(HaveLen(2), "managers that were started")

	cluster.Remove()
	f.remove()
}

// remove deletes the provider as docs/install.md describes. Its CRDs and its Namespace stay.
func (f *fixture) remove() {
	f.Helper()
	crds := f.CRDs()
	f.Expect(crds).NotTo(BeEmpty())
	kustomization := f.kustomization()
	suite.Change(f.Fixture, kustomization, func(o *unstructured.Unstructured) {
		f.Expect(unstructured.SetNestedField(o.Object, "Delete", "spec", "deletionPolicy")).To(Succeed())
	})
	f.Expect(box.Client.Delete(f.Context(), kustomization)).To(Succeed())
	f.Eventually(f.Gone(kustomization)).Should(BeTrue(), "the Kustomization is gone")
	f.Eventually(f.kubelet.Running).Should(BeEmpty(), "managers that run")
	f.Expect(f.Policies()).To(BeEmpty())
	f.Expect(f.CRDs()).To(Equal(crds), "CRDs")
	f.Expect(box.Client.Get(f.Context(), client.ObjectKey{Name: "capportal-system"}, &corev1.Namespace{})).To(Succeed())
}
