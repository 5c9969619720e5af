// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	quickStartNamespace = "e2e-quick-start"
	upgradeNamespace    = "e2e-provider-upgrade"
	// quickly is the maximum time from clusterctl init to a running cluster when all images are loaded.
	quickly = 3 * time.Minute
	// pause is how long TestProviderUpgrade watches the new manager while the portal's job does not progress. The manager reconciles every
	// object within the first seconds.
	pause = 45 * time.Second
	// previousVersion is the release before this one, built from its commit. As a pre-release, it is older than this release for clusterctl.
	previousVersion = "v0.1.0-previous"
	previousImage   = "registry.example/capportal/cluster-api-provider-portal:" + previousVersion
)

// TestQuickStart lives the life of the getting started page: a cluster that clusterctl generates is created, looked into with the user's
// kubeconfig, scaled, upgraded and deleted.
func TestQuickStart(t *testing.T) {
	f := newFixture(t, quickStartNamespace)
	cluster := f.apply("sample", 3)
	f.AwaitReady(cluster, 3)
	took := time.Since(env.initialized)
	t.Logf("from clusterctl init to a running cluster with 3 workers: %.1f s", took.Seconds())
	f.Expect(took).To(BeNumerically("<", quickly))

	kubeconfig := f.clusterctl("get", "kubeconfig", cluster.Name, "--namespace", f.Namespace)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	f.Expect(err).NotTo(HaveOccurred())
	workload, err := client.New(config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
	kubelets := func() (versions []string, err error) { // of the control node and the workers
		nodes := &corev1.NodeList{}
		err = workload.List(f.Context(), nodes)
		for _, node := range nodes.Items {
			versions = append(versions, node.Status.NodeInfo.KubeletVersion)
		}
		return versions, err
	}
	f.Expect(kubelets()).To(ConsistOf(version, version, version, version))

	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: cluster.Name + "-workers"}}
	suite.Change(f.Fixture, deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To[int32](2) })
	f.Eventually(kubelets).Should(ConsistOf(version, version, version))
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: cluster.Name}}
	suite.Change(f.Fixture, controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = newer })
	f.Eventually(kubelets).Should(ConsistOf(newer, newer, newer))
	f.AwaitReady(cluster, 2)
	f.remove(cluster)
	f.Expect(emulator.ClusterChanges(f.requestLog())).To(Equal([]string{"Creating", "Scaling size 3 → 2", "Upgrading " + version + " → " + newer, "Deleting"}))
}

// TestProviderUpgrade checks that clusterctl upgrade apply replaces the previous release while one cluster is ready and another is being
// created. The upgrade sends no change to the portal and replaces no Machine. test/upgrade has all other phases.
func TestProviderUpgrade(t *testing.T) {
	dir := filepath.Join(env.root, "bin", "previous")
	if _, err := os.Stat(filepath.Join(dir, "bin", "manager-built")); err != nil {
		t.Skip("the previous release is not built: run make previous")
	}
	installPrevious(t, dir)
	f := newFixture(t, upgradeNamespace)
	ready := f.apply("ready", 2)
	f.AwaitReady(ready, 2)
	stuck, err := json.Marshal(emulator.Fault{ID: "stuck", Method: http.MethodPost, Path: "/kubernetes-clusters", Job: emulator.JobStuck, Count: 1})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = env.portal.ask(t.Context(), http.MethodPost, "/faults", stuck)
	f.Expect(err).NotTo(HaveOccurred())
	creating := f.apply("creating", 2)
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: creating.Name}}
	f.Eventually(func() string {
		f.Get(controlPlane)
		return controlPlane.Annotations[infrav1.OperationAnnotation]
	}).Should(ContainSubstring(`"jobID":"`), "the creation's job in the annotation")

	before := f.holders()
	f.clusterctl("upgrade", "apply", "--infrastructure", env.clusterctl.provider, "--wait-providers")
	f.Eventually(func() []string { return managerImages(t) }).Should(ConsistOf(env.provider.image), "images of managers")
	time.Sleep(pause)
	f.Expect(f.changes()).To(HaveLen(2), "requests that change something")
	f.Expect(f.holders()).To(Equal(before), "Machines and their Nodes")

	_, err = env.portal.ask(t.Context(), http.MethodDelete, "/faults/stuck", nil)
	f.Expect(err).NotTo(HaveOccurred())
	f.AwaitReady(creating, 4)
	f.Expect(f.changes()).To(HaveLen(2), "requests of both creations that change something")
	f.remove(ready, creating)
}

// installPrevious builds and loads the image of the previous release, adds its files to clusterctl's repository, and installs it instead of
// this release.
func installPrevious(t *testing.T, dir string) {
	g := suite.Patient(t)
	const dockerfile = "FROM scratch\nCOPY manager-built /manager\nUSER 65532:65532\nENTRYPOINT [\"/manager\"]\n"
	g.Expect(buildImage(t.Context(), previousImage, dockerfile, filepath.Join(dir, "bin"), "manager-built")).To(Succeed())
	g.Expect(load(t.Context(), previousImage)).To(Succeed())
	manifests, err := exec.CommandContext(t.Context(), filepath.Join(env.root, "bin", "kustomize"), "build", filepath.Join(dir, "config", "default")).Output()
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string][]byte{components: []byte(strings.ReplaceAll(string(manifests), "image: controller:latest", "image: "+previousImage))}
	for to, from := range map[string]string{"metadata.yaml": "metadata.yaml", "cluster-template.yaml": "templates/cluster-template.yaml"} {
		files[to], err = os.ReadFile(filepath.Join(dir, from))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(os.MkdirAll(release(previousVersion), 0o755)).To(Succeed())
	for name, content := range files {
		g.Expect(os.WriteFile(filepath.Join(release(previousVersion), name), content, 0o600)).To(Succeed())
	}

	g.Expect(env.clusterctl.remove(t.Context())).To(Succeed())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: providerNamespace}}
	g.Eventually(func() bool {
		return apierrors.IsNotFound(env.home.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	}).Should(BeTrue(), "namespace %s must be gone", providerNamespace)
	_, err = env.clusterctl.run(t.Context(), "init", "--infrastructure", providerName+":"+previousVersion, "--wait-providers")
	g.Expect(err).NotTo(HaveOccurred())
}

// managerImages returns the images of all managers.
func managerImages(t *testing.T) (images []string) {
	all, err := pods(t.Context(), providerNamespace)
	if err != nil {
		return []string{err.Error()}
	}
	for _, pod := range all {
		images = append(images, pod.Spec.Containers[0].Image)
	}
	return images
}
