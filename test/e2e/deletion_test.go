// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// deletion deletes all objects at once, with the Secret first, as kubectl delete -f may do. Then it deletes the namespace while a cluster
// is being created.
func deletion(t *testing.T) {
	s := prepareSubject(t)
	manifest := s.generate("", 2)
	s.apply(manifest)
	s.settled(2)
	s.Expect(s.at.Delete(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: identityName}})).To(Succeed())
	s.deleteManifest(manifest)
	s.Eventually(func() ([]string, error) { return s.left(s.Context(), s.at) }).Should(BeEmpty(), "objects left in namespace %s", s.namespace)
	s.Expect(s.portalClusters(s.Context())).To(BeEmpty(), "clusters left at the portal")
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Deleting"}))

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.Expect(s.at.Create(s.Context(), env.portal.identity(client.ObjectKey{Namespace: s.namespace, Name: identityName}, s.user))).To(Succeed())
	s.apply(manifest)
	s.Eventually(func() ([]emulator.Cluster, error) { return s.portalClusters(s.Context()) }).Should(HaveLen(1))
	s.Expect(s.at.Delete(s.Context(), namespace)).To(Succeed())
	s.Eventually(func() (string, error) {
		err := s.at.Get(s.Context(), client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		left, err := s.left(s.Context(), s.at)
		return "still there, with " + fmt.Sprint(left), err
	}).Should(BeEmpty(), "namespace %s", s.namespace)
	s.Expect(s.portalClusters(s.Context())).To(BeEmpty(), "clusters left at the portal")
}
