// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
)

const (
	name  = "my-cluster" // the name in docs/gitops.md
	older = "v1.35.6"
	newer = "v1.36.3"
	ours  = "infrastructure.cluster.x-k8s.io/"

	// patience is longer than any change takes to arrive, even on a busy host.
	patience = 5 * time.Minute
)

// world is one Cluster under GitOps, in a namespace and an account of its own.
type world struct {
	*testing.T
	*WithT
	number    int
	namespace string
	account   string
	git       *repository
	committed int // number of rounds before the last commit
	stopSync  func()
	seen      record
	checks    map[string]map[string]health.Check // by tool and kind
}

// newWorld renders manifests from the templates. It does not apply them.
func newWorld(t *testing.T, a applier, templates ...string) *world {
	t.Helper()
	i := int(used.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more tests than accounts: raise the constant")
	}
	w := &world{T: t, WithT: NewWithT(t), number: i, namespace: fmt.Sprintf("gitops-%d", i), account: account(i), git: &repository{applier: a}}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	t.Cleanup(w.explain)
	flux, err := page.Flux()
	w.Expect(err).NotTo(HaveOccurred())
	argo, err := page.ArgoCD()
	w.Expect(err).NotTo(HaveOccurred())
	w.checks = map[string]map[string]health.Check{"Flux": flux, "Argo CD": argo}
	w.Expect(live.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	w.createSecret(client.ObjectKey{Namespace: w.namespace, Name: box.Identity.Name}, i)
	for _, template := range templates {
		objects, err := box.GenerateCluster(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, "--from", box.File("templates", template),
			"--kubernetes-version", older, "--control-plane-machine-count", "1", "--worker-machine-count", "1")
		w.Expect(err).NotTo(HaveOccurred())
		w.git.manifests = append(w.git.manifests, objects...)
	}
	return w
}

func (w *world) createSecret(key client.ObjectKey, i int) {
	w.Helper()
	secret := box.IdentitySecret(key)
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = email(i), password(i)
	w.Expect(live.Create(w.Context(), secret)).To(Succeed())
}

// kinds are the kinds with health checks.
var kinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("MachineDeployment"), infrav1.GroupVersion.WithKind("PortalControlPlane"),
}

// list lists the objects of a kind in the namespace.
func (w *world) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	w.Expect(live.List(w.Context(), list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// unhealthy returns the health checks that do not report Current, and their states. A kind without an object is unhealthy too.
func (w *world) unhealthy() []string {
	w.Helper()
	all := []string{}
	for _, kind := range kinds {
		objects := w.list(kind)
		if len(objects) == 0 {
			all = append(all, kind.Kind+": none")
		}
		for i := range objects {
			for who, checks := range w.checks {
				state, err := checks[kind.Kind](&objects[i])
				if err != nil && objects[i].Object["status"] != nil {
					w.Errorf("%s evaluates %s: %v", who, id(&objects[i]), err)
				}
				if state != health.Current {
					all = append(all, fmt.Sprintf("%s %s: %s", who, id(&objects[i]), state))
				}
			}
		}
	}
	return all
}

// arrived waits until every health check reports that the last commit has arrived. It checks that no health check fails in the meantime, and
// that the whole commit is in effect as soon as they report this.
func (w *world) arrived(version string, workers int) {
	w.Helper()
	w.synced(1)
	w.Eventually(func() []string {
		all := w.unhealthy()
		w.Expect(all).NotTo(ContainElement(HaveSuffix(string(health.Failed))))
		return all
	}).Should(BeEmpty(), "health checks")
	w.Expect(w.state()).To(Equal(truth(version, workers)), "the state when the health checks report Current")
	w.Expect(w.git.refused()).To(BeEmpty(), "refused applies")
	w.Expect(w.seen.flapped()).To(BeEmpty(), "fields that changed back and forth")
	w.Expect(w.seen.gone()).To(BeEmpty(), "fields that were removed")
}

func truth(version string, workers int) string {
	return fmt.Sprintf("control plane %s, %d Machines, %[2]d with a node at %[1]s", version, workers)
}

// state describes what the commits change.
func (w *world) state() string {
	w.Helper()
	controlPlane := &infrav1.PortalControlPlaneList{}
	w.Expect(live.List(w.Context(), controlPlane, client.InNamespace(w.namespace))).To(Succeed())
	w.Expect(controlPlane.Items).To(HaveLen(1))
	machines := &clusterv1.MachineList{}
	w.Expect(live.List(w.Context(), machines, client.InNamespace(w.namespace))).To(Succeed())
	version, bound := controlPlane.Items[0].Status.Version, 0
	for _, m := range machines.Items {
		if m.Status.NodeRef.IsDefined() && m.Spec.Version == version && m.DeletionTimestamp.IsZero() {
			bound++
		}
	}
	return fmt.Sprintf("control plane %s, %d Machines, %d with a node at %s", version, len(machines.Items), bound, version)
}

// idle checks that no object is written while the same manifests are applied again. It tries a few times, because work after the last change,
// such as another read of the kubeconfig, may have to end first.
func (w *world) idle() {
	w.Helper()
	var before, after map[string]string
	for range 4 {
		before = w.versions()
		rounds := w.git.count()
		w.Eventually(w.git.count).Should(BeNumerically(">=", rounds+6), "rounds of applying")
		if after = w.versions(); fmt.Sprint(before) == fmt.Sprint(after) {
			return
		}
	}
	w.Expect(after).To(Equal(before), "generations and resourceVersions while nothing happens")
}

// versions returns the generation and resourceVersion of all objects of the Cluster.
func (w *world) versions() map[string]string {
	w.Helper()
	all := map[string]string{}
	more := []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"), infrav1.GroupVersion.WithKind("PortalMachine"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
	}
	for _, kind := range append(more, recorded...) {
		for _, o := range w.list(kind) {
			all[id(&o)] = fmt.Sprintf("%d/%s", o.GetGeneration(), o.GetResourceVersion())
		}
	}
	return all
}

// portalClusters returns the portal clusters of the account.
func (w *world) portalClusters() (all []emulator.Cluster) {
	for _, c := range box.Portal.Clusters() {
		if c.Account == w.account {
			all = append(all, c)
		}
	}
	return all
}

// explain prints the objects and the portal's request log of a failed test.
func (w *world) explain() {
	if w.Failed() {
		w.Log(box.Describe(context.WithoutCancel(w.Context()), w.namespace, w.account))
	}
}
