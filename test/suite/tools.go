// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// Kubectl runs kubectl as an administrator of the management cluster.
func (f *Fixture) Kubectl(arguments ...string) {
	f.Helper()
	command := exec.CommandContext(f.Context(), f.Box.Kubectl(), arguments...)
	command.Env = append(os.Environ(), f.Box.Environment()...)
	output, err := command.CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(output))
}

// InstallCRDs installs the CRDs of all files of a folder, and waits until the API server serves them.
func (f *Fixture) InstallCRDs(folder ...string) {
	f.Helper()
	pattern := filepath.Join(append(folder, "*.yaml")...)
	files, err := filepath.Glob(pattern)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(files).NotTo(BeEmpty(), pattern)
	for _, file := range files {
		content, err := os.ReadFile(file)
		f.Expect(err).NotTo(HaveOccurred())
		objects, err := sandbox.Parse(content)
		f.Expect(err).NotTo(HaveOccurred())
		f.Apply(objects...)
		for _, o := range objects {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}}
			f.Eventually(func() bool {
				f.Get(crd)
				return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
			}).Should(BeTrue(), "%s is served", crd.Name)
		}
	}
}

// Module returns the folder of a module's source, in the version that the go.mod of a folder requires, or that path names after an @.
func (f *Fixture) Module(folder, path string) string {
	f.Helper()
	output, err := exec.CommandContext(f.Context(), "go", "-C", folder, "mod", "download", "-json", path).CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(output))
	var module struct{ Dir string }
	f.Expect(json.Unmarshal(output, &module)).To(Succeed())
	return module.Dir
}

// Example returns the objects of a file of config/examples, after replacing texts of it: pairs of an old and a new one. Each old one has to occur.
func (f *Fixture) Example(name string, replace ...string) []*unstructured.Unstructured {
	f.Helper()
	content, err := os.ReadFile(f.Box.File("config", "examples", name))
	f.Expect(err).NotTo(HaveOccurred())
	for i := 0; i < len(replace); i += 2 {
		f.Expect(string(content)).To(ContainSubstring(replace[i]), name)
	}
	objects, err := sandbox.Parse([]byte(strings.NewReplacer(replace...).Replace(string(content))))
	f.Expect(err).NotTo(HaveOccurred())
	return objects
}

// Apply applies objects as a user does.
func (f *Fixture) Apply(objects ...*unstructured.Unstructured) {
	f.Helper()
	for _, o := range objects {
		f.Expect(f.Box.Client.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
	}
}

// Find returns the first of the objects that has the kind.
func (f *Fixture) Find(objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	f.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	f.Fatalf("no object is a %s", kind)
	return nil
}
