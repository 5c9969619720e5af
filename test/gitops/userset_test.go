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
	"removalOrder":         "Newest",
	"controlPlaneEndpoint": map[string]any{"host": "api.chosen.example", "port": int64(443)},
	"workers":              map[string]any{"serviceOfferingID": "offering-4-16", "sshKeyPair": "sandbox"},
}

// TestUserFieldsStay commits all fields of chosen and checks that they stay. The first commit has a version that the portal does not offer, and
// the job of the first creation fails.
func TestUserFieldsStay(t *testing.T) {
	eachTool(t, argoCD, flux, func(t *testing.T, a applier) {
		f := newFixture(t, a, "cluster-template.yaml")
		f.Expect(box.Portal.Inject(emulator.Fault{Account: f.User.Account, Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobFails, JobCode: emulator.CodeInsufficientCapacity, Count: 1})).To(Succeed())
		f.commit(func(m *manifests) {
			for field, value := range chosen {
				m.set("PortalControlPlane", value, "spec", field)
			}
			m.set("PortalControlPlane", "v1.99.0", "spec", "version")
		})
		f.watch()
		f.sync()
		f.fails()
		f.commit(func(m *manifests) { m.set("PortalControlPlane", older, "spec", "version") })
		f.arrived(older, 1)
		f.commit(func(m *manifests) { m.set("MachineDeployment", int64(2), "spec", "replicas") })
		f.arrived(older, 2)
		f.idle()
		f.fieldsStayed()
		f.Expect(f.PortalClusters()).To(HaveLen(1))
		f.Expect(f.PortalClusters()[0].Name).To(Equal("chosen"))
		f.hold()
	})
}

// controlPlane reads the PortalControlPlane.
func (f *fixture) controlPlane() *unstructured.Unstructured {
	f.Helper()
	all := f.list(infrav1.GroupVersion.WithKind("PortalControlPlane"))
	f.Expect(all).To(HaveLen(1))
	return &all[0]
}

func (f *fixture) fieldsStayed() {
	f.Helper()
	cp := f.controlPlane()
	for field, value := range chosen {
		got, _, err := unstructured.NestedFieldNoCopy(cp.Object, "spec", field)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(got).To(Equal(value), "spec.%s", field)
	}
	id, _, _ := unstructured.NestedString(cp.Object, "spec", "clusterID")
	f.Expect(id).NotTo(BeEmpty(), "spec.clusterID, which is not in the manifest")
}

// fails waits until the health checks report Failed, which means that the user has to act.
func (f *fixture) fails() {
	f.Helper()
	f.Eventually(func() (states []health.State) {
		for _, o := range f.list(infrav1.GroupVersion.WithKind("PortalControlPlane")) {
			states = append(states, health.Check(&o, f.reasons))
		}
		return states
	}).Should(ConsistOf(health.Failed))
}

// hold removes the Cluster by force and deletes its PortalControlPlane, so that the provider holds the deletion. It waits until the health check
// of Flux reports Failed, and then confirms the deletion.
func (f *fixture) hold() {
	f.Helper()
	f.stopSync()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	f.patch(cluster, `{"spec":{"paused":true}}`)
	f.Expect(live.Delete(f.Context(), cluster)).To(Succeed())
	f.patch(cluster, `{"metadata":{"finalizers":null}}`)
	f.Expect(live.Delete(f.Context(), f.controlPlane())).To(Succeed())
	f.fails()
	cp := f.controlPlane()
	id, _, _ := unstructured.NestedString(cp.Object, "spec", "clusterID")
	f.patch(cp, `{"metadata":{"annotations":{"`+infrav1.DecisionAnnotation+`":"`+infrav1.DecisionDelete.About(id)+`"}}}`)
	f.Eventually(f.PortalClusters).Should(BeEmpty())
}

func (f *fixture) patch(o client.Object, patch string) {
	f.Helper()
	f.Expect(live.Patch(f.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
