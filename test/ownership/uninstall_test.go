// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// absence is how long a manager or the CRDs are missing.
const absence = 5 * time.Second

// uninstalls remove the provider's namespace or CRDs. They run one after the other.
func uninstalls() []row {
	return []row{
		{
			event:   "the provider is reinstalled with its namespace. A person creates the Secret of the PortalClusterIdentity again, and scales up",
			happens: (*story).loseHome,
			with: func(s *story) {
				shared := s.share("uninstalled")
				s.Cleanup(func() { _ = box.Client.Delete(context.WithoutCancel(s.Context()), shared) })
			},
			sees: []sight{{"PortalCluster", infrav1.IdentityReadyCondition}, deleting, available},
		}, {
			event:   "Cluster API is reinstalled, after its CRDs and finalizers were removed by force",
			happens: (*story).loseCore, sees: []sight{{kind: "Cluster"}}, after: func(s *story) { s.Get(s.ControlPlane) },
		}, {
			event:   "the uninstalled provider's CRDs are deleted. A person sets `deletionPolicy: Retain`, reinstalls the provider, and applies the manifest with `spec.clusterID`",
			happens: (*story).loseProvider, sees: []sight{deleting, available},
		}, {
			event: "the uninstalled provider's CRDs are deleted, and the provider is reinstalled",
			happens: func(s *story) {
				box.StopManager()
				s.deleteCRDs("infrastructure-portal")
				time.Sleep(absence)
				s.installProvider()
			},
			sees: []sight{deleting}, // this row is the last one, because the CRDs stay in deletion until the objects are gone
		},
	}
}

// crds returns the CRDs that have the label of the provider.
func (s *story) crds(provider string) []apiextensionsv1.CustomResourceDefinition {
	s.Helper()
	all := &apiextensionsv1.CustomResourceDefinitionList{}
	s.Expect(box.Client.List(s.Context(), all, client.MatchingLabels{clusterv1.ProviderNameLabel: provider})).To(Succeed())
	return all.Items
}

func (s *story) deleteCRDs(provider string) {
	s.Helper()
	crds := s.crds(provider)
	s.Expect(crds).NotTo(BeEmpty())
	for i := range crds {
		s.delete(&crds[i])
	}
}

// loseCore removes Cluster API with its objects by force, and installs it again.
func (s *story) loseCore() {
	box.StopCore()
	s.Expect(box.Client.DeleteAllOf(s.Context(), &admissionv1.ValidatingWebhookConfiguration{})).To(Succeed())
	s.Expect(box.Client.DeleteAllOf(s.Context(), &admissionv1.MutatingWebhookConfiguration{})).To(Succeed())
	s.deleteCRDs("cluster-api")
	s.Eventually(func() (left int) {
		all, err := list(s.Context(), box.Client, s.Namespace)
		s.Expect(err).NotTo(HaveOccurred())
		for _, o := range all.only("Cluster", "MachineDeployment", "MachineSet", "Machine") {
			if o.GetFinalizers() != nil {
				_ = box.Client.Patch(s.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			}
		}
		return len(s.crds("cluster-api"))
	}).Should(BeZero(), "CRDs of Cluster API")
	time.Sleep(absence)
	s.Expect(box.InstallCore(s.Context())).To(Succeed())
	s.Expect(box.StartCore(s.Context())).To(Succeed())
	time.Sleep(collection)
}

// collection is the longest time the garbage collector takes to notice new kinds, and to retry objects whose owners it could not find.
const collection = 35 * time.Second

// loseProvider removes the provider and its CRDs. The finalizers keep the objects and their CRDs. It sets deletionPolicy Retain and installs the
// provider, which removes the finalizers. It then removes the rest of the Cluster and applies the manifest, which adopts the portal cluster.
func (s *story) loseProvider() {
	box.StopManager()
	s.deleteCRDs("infrastructure-portal")
	time.Sleep(absence)
	suite.Change(s.Fixture, s.ControlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	s.Expect(s.ControlPlane.DeletionTimestamp.IsZero()).To(BeFalse(), "the deletion of the CRD deletes its objects")
	s.Expect(s.requests()).To(BeEmpty())
	s.installProvider()
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.crds("infrastructure-portal"), func(crd apiextensionsv1.CustomResourceDefinition) bool {
			return !crd.DeletionTimestamp.IsZero()
		})
	}).Should(BeFalse(), "a CRD of the provider is still being deleted")
	s.pause(s.Cluster)
	s.pause(s.Deployment)
	s.adopt()
}

// installProvider creates the CRDs that do not exist, and starts the manager.
func (s *story) installProvider() {
	s.Helper()
	s.Expect(box.InstallProvider(s.Context())).To(Succeed())
	s.Expect(box.StartManager(s.Context())).To(Succeed())
}
