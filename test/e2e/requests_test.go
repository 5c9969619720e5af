// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// requestLog returns the entries of the portal's request log for the subject's account.
func (s *subject) requestLog(ctx context.Context) []emulator.LogEntry {
	s.Helper()
	entries, err := env.portal.requestLog(ctx)
	s.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(entries, func(e emulator.LogEntry) bool { return e.Account != s.account() })
}

// mutations returns the requests that try to change something, whether the portal accepted them or not.
func (s *subject) mutations(from int) (all []string) {
	s.Helper()
	for _, e := range s.requestLog(s.Context())[from:] {
		if e.IsChange() {
			all = append(all, e.String())
		}
	}
	return all
}

// changes returns the changes of the account's clusters in order, such as "Scaling size 1 → 2".
func (s *subject) changes() []string {
	s.Helper()
	return emulator.ClusterChanges(s.requestLog(s.Context()))
}

// left returns the objects of Cluster API and of this provider that are left in the namespace, and all Secrets.
func (s *subject) left(ctx context.Context, m *management) (all []string, err error) {
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{},
		&corev1.SecretList{},
	} {
		if err := m.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*"), "List")
				all = append(all, fmt.Sprintf("%s %s, finalizers %v", kind, object.GetName(), object.GetFinalizers()))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remove deletes the Cluster, as most specs do in the end, and waits until nothing is left.
func (s *subject) remove() {
	s.Helper()
	s.delete()
	s.gone()
}

func (s *subject) delete() {
	s.Helper()
	s.Expect(s.at.Delete(s.Context(), &clusterv1.Cluster{ObjectMeta: s.meta()})).To(Succeed())
}

// gone waits until nothing is left in the namespace and at the portal, except the identity Secret, which belongs to the user.
func (s *subject) gone() {
	s.Helper()
	s.Eventually(func() ([]string, error) { return s.left(s.Context(), s.at) }).Should(
		ConsistOf("v1.Secret "+identityName+", finalizers []"), "what is left in namespace %s", s.namespace)
	s.Eventually(func() ([]emulator.Cluster, error) { return s.portalClusters(s.Context()) }).Should(BeEmpty(), "clusters left at the portal")
}
