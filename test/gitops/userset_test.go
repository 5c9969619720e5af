// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
)

// chosen are optional fields of a PortalControlPlane. Some of them have defaults, or the provider fills them in.
var chosen = map[string]any{
	"clusterName":          "chosen",
	"description":          "from Git",
	"deletionPolicy":       "Delete",
	"deletionProtection":   false,
	"removalOrder":         "Newest",
	"controlPlaneEndpoint": map[string]any{"host": "api.chosen.example", "port": int64(443)},
	"workers":              map[string]any{"serviceOfferingID": "offering-4-16", "sshKeyPair": "sandbox"},
}

// TestUserFieldsStay commits all fields of chosen and checks that they stay. The first commit has a version that the portal does not offer, and
// the job of the first creation fails.
func TestUserFieldsStay(t *testing.T) {
	t.Parallel()
	for title, a := range map[string]applier{"Flux": flux, "Argo CD": argoCD} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, a, "cluster-template.yaml")
			w.Expect(box.Portal.Inject(emulator.Fault{Account: w.account, Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobFails, Count: 1})).To(Succeed())
			w.commit(func(m *manifests) {
				for field, value := range chosen {
					m.set("PortalControlPlane", value, "spec", field)
				}
				m.set("PortalControlPlane", "v1.99.0", "spec", "version")
			})
			w.watch()
			w.sync()
			w.fails("Flux", "Argo CD")
			w.commit(func(m *manifests) { m.set("PortalControlPlane", older, "spec", "version") })
			w.arrived(older, 1)
			w.commit(func(m *manifests) { m.set("MachineDeployment", int64(2), "spec", "replicas") })
			w.arrived(older, 2)
			w.idle()
			w.fieldsStayed()
			w.Expect(w.portalClusters()).To(HaveLen(1))
			w.Expect(w.portalClusters()[0].Name).To(Equal("chosen"))
			w.hold()
		})
	}
}

// controlPlane reads the PortalControlPlane.
func (w *world) controlPlane() *unstructured.Unstructured {
	w.Helper()
	all := w.list(infrav1.GroupVersion.WithKind("PortalControlPlane"))
	w.Expect(all).To(HaveLen(1))
	return &all[0]
}

func (w *world) fieldsStayed() {
	w.Helper()
	cp := w.controlPlane()
	for field, value := range chosen {
		got, _, err := unstructured.NestedFieldNoCopy(cp.Object, "spec", field)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(got).To(Equal(value), "spec.%s", field)
	}
	id, _, _ := unstructured.NestedString(cp.Object, "spec", "clusterID")
	w.Expect(id).NotTo(BeEmpty(), "spec.clusterID, which is not in the manifest")
}

// fails waits until the health checks report Failed, which means that the user has to act.
func (w *world) fails(who ...string) {
	w.Helper()
	for _, who := range who {
		w.Eventually(func() health.State {
			for _, o := range w.list(infrav1.GroupVersion.WithKind("PortalControlPlane")) {
				state, _ := w.checks[who]["PortalControlPlane"](&o) // an object without status is an error for Flux
				return state
			}
			return health.Unknown
		}).Should(Equal(health.Failed), who)
	}
}

// hold removes the Cluster by force and deletes its PortalControlPlane, so that the provider holds the deletion. It waits until the health check
// of Flux reports Failed, and then confirms the deletion.
func (w *world) hold() {
	w.Helper()
	w.stopSync()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.patch(cluster, `{"spec":{"paused":true}}`)
	w.Expect(live.Delete(w.Context(), cluster)).To(Succeed())
	w.patch(cluster, `{"metadata":{"finalizers":null}}`)
	w.Expect(live.Delete(w.Context(), w.controlPlane())).To(Succeed())
	w.fails("Flux")
	cp := w.controlPlane()
	id, _, _ := unstructured.NestedString(cp.Object, "spec", "clusterID")
	w.patch(cp, `{"metadata":{"annotations":{"`+infrav1.ConfirmDeletionAnnotation+`":"`+id+`"}}}`)
	w.Eventually(w.portalClusters).Should(BeEmpty())
}

func (w *world) patch(o client.Object, patch string) {
	w.Helper()
	w.Expect(live.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
