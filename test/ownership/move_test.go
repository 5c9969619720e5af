// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// moves involve a second management cluster.
func moves() []row {
	return []row{{
		event: "two management clusters with the same objects",
		happens: func(s *story) {
			there := s.away()
			s.restore(there.Client, s.backup().withoutOwners())
			s.settled(there)
		},
		sees: []sight{available},
		after: func(s *story) {
			s.Consistently(s.requests, quiet, time.Second).Should(BeEmpty())
			s.Eventually(func() (int, error) { return raze(s.Context(), s.away().Client, s.Namespace) }).Should(BeZero())
		},
		before: []row{{
			event: "`clusterctl move` and back",
			happens: func(s *story) {
				there := s.away()
				s.move(box, there)
				s.settled(there)
				s.move(there, box)
				s.settled(box)
			},
			sees: []sight{deleting, available},
		}},
	}}
}

// away returns the second management cluster, in which it creates the namespace of the row.
func (s *story) away() *sandbox.Sandbox {
	s.Helper()
	awayUsed.Store(true)
	there, err := away()
	s.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	s.Expect(client.IgnoreAlreadyExists(there.Client.Create(s.Context(), namespace))).To(Succeed())
	return there
}

// label labels the CRDs as clusterctl init does. Without the label, clusterctl move does not see their objects.
func (s *story) label(at *sandbox.Sandbox) {
	s.Helper()
	all := &apiextensionsv1.CustomResourceDefinitionList{}
	s.Expect(at.Client.List(s.Context(), all, client.HasLabels{clusterv1.ProviderNameLabel})).To(Succeed())
	s.Expect(all.Items).NotTo(BeEmpty())
	for i := range all.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+clusterctlv1.ClusterctlLabel+`":""}}}`))
		s.Expect(at.Client.Patch(s.Context(), &all.Items[i], patch)).To(Succeed())
	}
}

// move runs clusterctl move for the namespace.
func (s *story) move(from, to *sandbox.Sandbox) {
	s.Helper()
	s.label(from)
	s.label(to)
	command := exec.CommandContext(s.Context(), box.Binary("clusterctl"), "move", "--namespace", s.Namespace,
		"--kubeconfig", from.Kubeconfig, "--to-kubeconfig", to.Kubeconfig)
	command.Env = append(os.Environ(), from.Environment()...)
	out, err := command.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
}
