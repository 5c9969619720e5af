// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name  = "my-cluster" // the name in docs/gitops.md
	older = "v1.35.6"
	newer = "v1.36.3"
	ours  = "infrastructure.cluster.x-k8s.io/"
)

// fixture is one Cluster under GitOps, in a namespace and an account of its own.
type fixture struct {
	*suite.Fixture
	git       *repository
	committed int // number of rounds before the last commit
	stopSync  func()
	seen      record
	reasons   []string // for which a person has to act
}

// eachTool runs the test as one tool, and at night as the other one too. The tools differ only in how they apply manifests, and each of them
// always applies those of some test.
func eachTool(t *testing.T, always, atNight applier, test func(*testing.T, applier)) {
	t.Helper()
	t.Parallel()
	t.Run(always.title, func(t *testing.T) {
		t.Parallel()
		test(t, always)
	})
	t.Run(atNight.title, func(t *testing.T) {
		suite.Nightly(t)
		t.Parallel()
		test(t, atNight)
	})
}

// newFixture renders manifests from the templates. It does not apply them.
func newFixture(t *testing.T, a applier, templates ...string) *fixture {
	t.Helper()
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("gitops", accounts.Next(t))), git: &repository{applier: a}}
	f.reasons = pages.Reasons()
	f.Create(f.IdentitySecret(box.Identity.Name))
	for _, template := range templates {
		objects, err := box.GenerateCluster(f.Context(), client.ObjectKey{Namespace: f.Namespace, Name: name}, "--from", box.File("templates", template),
			"--kubernetes-version", older, "--control-plane-machine-count", "1", "--worker-machine-count", "1")
		f.Expect(err).NotTo(HaveOccurred())
		f.git.manifests = append(f.git.manifests, objects...)
	}
	return f
}

// kinds are the kinds with health checks.
var kinds = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("MachineDeployment"), infrav1.GroupVersion.WithKind("PortalControlPlane"),
}

// list lists the objects of a kind in the namespace.
func (f *fixture) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	f.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	f.List(list)
	return list.Items
}

// unhealthy returns the health checks that do not report Current, and their states. A kind without an object is unhealthy too.
func (f *fixture) unhealthy() []string {
	f.Helper()
	all := []string{}
	for _, kind := range kinds {
		objects := f.list(kind)
		if len(objects) == 0 {
			all = append(all, kind.Kind+": none")
		}
		for i := range objects {
			if state := health.Check(&objects[i], f.reasons); state != health.Current {
				all = append(all, fmt.Sprintf("%s: %s", id(&objects[i]), state))
			}
		}
	}
	return all
}

// arrived waits until every health check reports that the last commit has arrived. It checks that no health check fails in the meantime, and
// that the whole commit is in effect as soon as they report this.
func (f *fixture) arrived(version string, workers int) {
	f.Helper()
	f.synced(1)
	f.Eventually(func() []string {
		all := f.unhealthy()
		f.Expect(all).NotTo(ContainElement(HaveSuffix(string(health.Failed))))
		return all
	}).Should(BeEmpty(), "health checks")
	f.Expect(f.state()).To(Equal(truth(version, workers)), "the state when the health checks report Current")
	f.Expect(f.git.refused()).To(BeEmpty(), "refused applies")
	f.Expect(f.seen.flapped()).To(BeEmpty(), "fields that changed back and forth")
	f.Expect(f.seen.gone()).To(BeEmpty(), "fields that were removed")
}

func truth(version string, workers int) string {
	return fmt.Sprintf("control plane %s, %d Machines, %[2]d with a node at %[1]s", version, workers)
}

// state describes what the commits change.
func (f *fixture) state() string {
	f.Helper()
	controlPlane := &infrav1.PortalControlPlaneList{}
	f.List(controlPlane)
	f.Expect(controlPlane.Items).To(HaveLen(1))
	machines := f.Machines()
	version, bound := controlPlane.Items[0].Status.Version, 0
	for _, m := range machines {
		if m.Status.NodeRef.IsDefined() && m.Spec.Version == version && m.DeletionTimestamp.IsZero() {
			bound++
		}
	}
	return fmt.Sprintf("control plane %s, %d Machines, %d with a node at %s", version, len(machines), bound, version)
}

// idle checks that no object is written while the same manifests are applied again. It tries a few times, because work after the last change,
// such as another read of the kubeconfig, may have to end first.
func (f *fixture) idle() {
	f.Helper()
	var before, after map[string]string
	for range 4 {
		before = f.versions()
		rounds := f.git.count()
		f.Eventually(f.git.count).Should(BeNumerically(">=", rounds+6), "rounds of applying")
		if after = f.versions(); fmt.Sprint(before) == fmt.Sprint(after) {
			return
		}
	}
	f.Expect(after).To(Equal(before), "generations and resourceVersions while nothing happens")
}

// versions returns the generation and resourceVersion of all objects of the Cluster.
func (f *fixture) versions() map[string]string {
	f.Helper()
	all := map[string]string{}
	more := []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"), infrav1.GroupVersion.WithKind("PortalMachine"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
	}
	for _, kind := range append(more, recorded...) {
		for _, o := range f.list(kind) {
			all[id(&o)] = fmt.Sprintf("%d/%s", o.GetGeneration(), o.GetResourceVersion())
		}
	}
	return all
}
