// SPDX-License-Identifier: Apache-2.0

package gitops

import (
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
	t.Parallel()
	for title, a := range map[string]applier{"Flux": flux, "Argo CD": argoCD} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, a, "cluster-template.yaml")
			w.shareAccount()
			w.commit(func(m *manifests) { m.set("PortalCluster", "10.0.0.0/24", "spec", "network", "cidr") })
			w.watch()
			w.sync()
			w.arrived(older, 1)
			w.idle()
			w.commit(func(m *manifests) { m.set("MachineDeployment", int64(3), "spec", "replicas") })
			w.arrived(older, 3)
			w.commit(func(m *manifests) { m.set("MachineDeployment", int64(2), "spec", "replicas") })
			w.arrived(older, 2)
			w.commit(func(m *manifests) {
				m.set("PortalControlPlane", newer, "spec", "version")
				m.set("MachineDeployment", newer, "spec", "template", "spec", "version")
			})
			w.arrived(newer, 2)
			w.rollOut()
			w.autoscale()
			w.idle()
			w.waits()
			w.fieldsAreOwned("PortalCluster", "PortalControlPlane", "PortalMachineTemplate", "PortalMachine", "PortalClusterIdentity")
			w.prune()
		})
	}
}

// shareAccount commits a PortalClusterIdentity, and a PortalCluster that uses it.
func (w *world) shareAccount() {
	w.Helper()
	w.createSecret(client.ObjectKey{Namespace: "capportal-system", Name: w.namespace}, w.number)
	identity := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": w.namespace},
		"spec": map[string]any{
			"secretRef":         map[string]any{"name": w.namespace},
			"allowedNamespaces": map[string]any{"list": []any{w.namespace}},
			"limits":            map[string]any{"clusters": int64(1)},
		},
	}}
	identity.SetGroupVersionKind(infrav1.GroupVersion.WithKind("PortalClusterIdentity"))
	w.commit(func(m *manifests) {
		m.all = append(m.all, identity)
		m.set("PortalCluster", map[string]any{"kind": "PortalClusterIdentity", "name": w.namespace}, "spec", "identityRef")
	})
}

// rollOut commits a new template for the MachineDeployment, and removes the old template in the same commit.
func (w *world) rollOut() {
	w.Helper()
	const next = name + "-workers-2"
	before := w.machines()
	w.commit(func(m *manifests) {
		m.set("PortalMachineTemplate", next, "metadata", "name")
		m.set("MachineDeployment", next, "spec", "template", "spec", "infrastructureRef", "name")
	})
	for _, machine := range before { // docs/gitops.md warns that core reports the rollout late
		w.Eventually(w.machines).ShouldNot(ContainElement(machine), "Machines during the rollout")
	}
	w.arrived(newer, 2)
	templates := w.list(infrav1.GroupVersion.WithKind("PortalMachineTemplate"))
	w.Expect(templates).To(HaveLen(1), "templates after pruning")
}

func (w *world) machines() (names []string) {
	w.Helper()
	for _, m := range w.list(clusterv1.GroupVersion.WithKind("Machine")) {
		names = append(names, m.GetName())
	}
	return names
}

// autoscale commits a MachineDeployment for the autoscaler, and then sets the replicas through the scale subresource, as the autoscaler does.
func (w *world) autoscale() {
	w.Helper()
	w.commit(func(m *manifests) {
		m.set("MachineDeployment", nil, "spec", "replicas")
		for key, value := range map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1", clusterv1.AutoscalerMaxSizeAnnotation: "10"} {
			m.set("MachineDeployment", value, "metadata", "annotations", key)
		}
	})
	w.arrived(newer, 2)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name + "-workers"}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	w.Expect(live.SubResource("scale").Update(w.Context(), deployment, client.WithSubResourceBody(scale),
		client.FieldOwner("cluster-autoscaler"))).To(Succeed())
	w.commit(func(*manifests) {})
	w.synced(2)
	w.arrived(newer, 4)
}

// prune removes all manifests. It checks that the portal cluster and all objects are deleted, and that no health check fails in the meantime.
func (w *world) prune() {
	w.Helper()
	w.commit(func(m *manifests) { m.all = nil })
	w.synced(1)
	w.Eventually(func() (left []string) {
		for _, kind := range recorded {
			for _, o := range w.list(kind) {
				left = append(left, id(&o))
				if check := w.checks["Flux"][kind.Kind]; check != nil && o.GetDeletionTimestamp() != nil {
					w.Expect(check(&o)).To(Equal(health.InProgress), "while it is being deleted")
				}
			}
		}
		return left
	}).Should(BeEmpty(), "objects in the namespace")
	w.Expect(w.git.refused()).To(BeEmpty(), "refused applies")
	w.Expect(w.portalClusters()).To(BeEmpty())
}
