// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	loopback = "127.0.0.1"
	example  = "flux-provider.yaml"
	// sources is the module of source-controller, whose kinds kustomize-controller reads.
	sources = "github.com/fluxcd/source-controller@v1.9.6"
)

// fixture is the management cluster with Flux.
type fixture struct {
	*suite.Fixture
	kubelet *sandbox.Kubelet
}

// startFlux installs Flux's CRDs, and runs kustomize-controller.
func (f *fixture) startFlux() {
	f.Helper()
	modules := filepath.Join(root, "hack", "flux")
	f.InstallCRDs(f.Module(modules, sources), "config", "crd", "bases")
	f.InstallCRDs(f.Module(modules, "github.com/fluxcd/kustomize-controller"), "config", "crd", "bases")
	dir := filepath.Join(box.Dir, "flux")
	f.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	var ports [2]int
	for i := range ports {
		var err error
		ports[i], err = kubeserver.FreePort(loopback)
		f.Expect(err).NotTo(HaveOccurred())
	}
	health := kubeserver.HostPort(loopback, ports[0])
	process, err := kubeserver.Start(f.Context(), kubeserver.Spec{
		Name: "kustomize-controller", Path: filepath.Join(root, "bin", "kustomize-controller"), Log: filepath.Join(box.Dir, "kustomize-controller.log"),
		Args:  []string{"--health-addr=" + health, "--metrics-addr=" + kubeserver.HostPort(loopback, ports[1])},
		Env:   []string{"KUBECONFIG=" + box.Kubeconfig, "HOME=" + dir, "TMPDIR=" + dir, "RUNTIME_NAMESPACE=flux-system"},
		Ready: kubeserver.Probe("http://" + health + "/readyz"),
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(process.Stop)
}

// revision returns the revision of the commit that has the release.
func revision(r suite.Release) string {
	return fmt.Sprintf("main@sha1:%x", sha256.Sum256([]byte(r.Version)))[:len("main@sha1:")+40]
}

// commit serves a repository whose folder capportal has the file of the release, as source-controller does after a commit.
func (f *fixture) commit(r suite.Release) {
	f.Helper()
	content := f.Components(r)
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	f.Expect(files.WriteHeader(&tar.Header{Name: "capportal/infrastructure-components.yaml", Mode: 0o644, Size: int64(len(content))})).To(Succeed())
	_, err := files.Write([]byte(content))
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(files.Close()).To(Succeed())
	f.Expect(compressed.Close()).To(Succeed())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) }))
	f.Cleanup(server.Close)

	source := f.Find(f.Example(example), "GitRepository")
	f.Get(source)
	artifact := map[string]any{
		"url": server.URL + "/archive.tar.gz", "path": "archive.tar.gz", "revision": revision(r), "size": int64(archive.Len()),
		"digest": fmt.Sprintf("sha256:%x", sha256.Sum256(archive.Bytes())), "lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}
	f.Expect(unstructured.SetNestedMap(source.Object, artifact, "status", "artifact")).To(Succeed())
	f.Expect(box.Client.Status().Update(f.Context(), source)).To(Succeed())
}

// kustomization returns the Kustomization of the management cluster.
func (f *fixture) kustomization() *unstructured.Unstructured {
	f.Helper()
	found := f.Find(f.Example(example), "Kustomization")
	f.Get(found)
	return found
}

// arrives waits until Flux reports that it has applied the release and that all objects are healthy, and only its manager runs.
func (f *fixture) arrives(r suite.Release) {
	f.Helper()
	f.Eventually(func() []string {
		o := f.kustomization()
		applied, _, _ := unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
		state := append(f.kubelet.Running(), applied)
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			if c["type"] == "Ready" && c["observedGeneration"] == o.GetGeneration() {
				state = append(state, fmt.Sprintf("Ready %s", c["status"]))
			}
		}
		return state
	}).Should(Equal([]string{r.Image(), revision(r), "Ready True"}))
}
