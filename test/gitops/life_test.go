// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
)

// TestLife applies the flavor as Flux and as Argo CD do, throughout the life of a Cluster. The Cluster uses a PortalClusterIdentity and has a
// new network.
func TestLife(t *testing.T) {
	eachTool(t, flux, argoCD, func(t *testing.T, a applier) {
		f := newFixture(t, a, "cluster-template.yaml")
		f.shareAccount()
		f.commit(func(m *manifests) { m.set("PortalCluster", "10.0.0.0/24", "spec", "network", "cidr") })
		f.watch()
		f.sync()
		f.arrived(older, 1)
		f.idle()
		f.commit(func(m *manifests) { m.set("MachineDeployment", int64(3), "spec", "replicas") })
		f.arrived(older, 3)
		f.commit(func(m *manifests) { m.set("MachineDeployment", int64(2), "spec", "replicas") })
		f.arrived(older, 2)
		f.commit(func(m *manifests) {
			m.set("PortalControlPlane", newer, "spec", "version")
			m.set("MachineDeployment", newer, "spec", "template", "spec", "version")
		})
		f.arrived(newer, 2)
		f.rollOut()
		f.autoscale()
		f.idle()
		f.waits()
		f.fieldsAreOwned("PortalCluster", "PortalControlPlane", "PortalMachineTemplate", "PortalMachine", "PortalClusterIdentity")
		f.prune()
	})
}

// shareAccount commits a PortalClusterIdentity, and a PortalCluster that uses it.
func (f *fixture) shareAccount() {
	f.Helper()
	secret := f.IdentitySecret(f.Namespace)
	secret.Namespace = "capportal-system"
	f.Create(secret)
	identity := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": f.Namespace},
		"spec": map[string]any{
			"secretRef":         map[string]any{"name": f.Namespace},
			"allowedNamespaces": map[string]any{"list": []any{f.Namespace}},
			"limits":            map[string]any{"zones": []any{"zone-1"}},
		},
	}}
	identity.SetGroupVersionKind(infrav1.GroupVersion.WithKind("PortalClusterIdentity"))
	f.commit(func(m *manifests) {
		m.all = append(m.all, identity)
		m.set("PortalCluster", map[string]any{"kind": "PortalClusterIdentity", "name": f.Namespace}, "spec", "identityRef")
	})
}

// rollOut commits a new template for the MachineDeployment, and removes the old template in the same commit.
func (f *fixture) rollOut() {
	f.Helper()
	const next = name + "-workers-2"
	before := f.machines()
	f.commit(func(m *manifests) {
		m.set("PortalMachineTemplate", next, "metadata", "name")
		m.set("MachineDeployment", next, "spec", "template", "spec", "infrastructureRef", "name")
	})
	for _, machine := range before { // docs/gitops.md warns that core reports the rollout late
		f.Eventually(f.machines).ShouldNot(ContainElement(machine), "Machines during the rollout")
	}
	f.arrived(newer, 2)
	templates := f.list(infrav1.GroupVersion.WithKind("PortalMachineTemplate"))
	f.Expect(templates).To(HaveLen(1), "templates after pruning")
}

func (f *fixture) machines() (names []string) {
	f.Helper()
	for _, m := range f.list(clusterv1.GroupVersion.WithKind("Machine")) {
		names = append(names, m.GetName())
	}
	return names
}

// autoscale commits a MachineDeployment for the autoscaler, and then sets the replicas through the scale subresource, as the autoscaler does.
func (f *fixture) autoscale() {
	f.Helper()
	f.commit(func(m *manifests) {
		m.set("MachineDeployment", nil, "spec", "replicas")
		for key, value := range map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1", clusterv1.AutoscalerMaxSizeAnnotation: "10"} {
			m.set("MachineDeployment", value, "metadata", "annotations", key)
		}
	})
	f.arrived(newer, 2)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name + "-workers"}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	f.Expect(live.SubResource("scale").Update(f.Context(), deployment, client.WithSubResourceBody(scale),
		client.FieldOwner("cluster-autoscaler"))).To(Succeed())
	f.commit(func(*manifests) {})
	f.synced(2)
	f.arrived(newer, 4)
}

// prune removes all manifests. It checks that the portal cluster and all objects are deleted, and that no health check fails in the meantime.
func (f *fixture) prune() {
	f.Helper()
	f.commit(func(m *manifests) { m.all = nil })
	f.synced(1)
	f.Eventually(func() (left []string) {
		for _, kind := range recorded {
			for _, o := range f.list(kind) {
				left = append(left, id(&o))
				if slices.Contains(kinds, kind) && o.GetDeletionTimestamp() != nil {
					f.Expect(health.Check(&o, f.reasons)).To(Equal(health.InProgress), "while it is being deleted")
				}
			}
		}
		return left
	}).Should(BeEmpty(), "objects in the namespace")
	f.Expect(f.git.refused()).To(BeEmpty(), "refused applies")
	f.Expect(f.PortalClusters()).To(BeEmpty())
}
