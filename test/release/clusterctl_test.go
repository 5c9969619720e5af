// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// clusterctl runs the real clusterctl with these variables and without the user's.
func clusterctl(t *testing.T, variables map[string]string, arguments ...string) (out, problems string, err error) {
	t.Helper()
	return runClusterctl(t.Context(), t.TempDir(), variables, arguments...)
}

func runClusterctl(ctx context.Context, home string, variables map[string]string, arguments ...string) (out, problems string, err error) {
	command := exec.CommandContext(ctx, box.Binary("clusterctl"), append(arguments, "--config", config)...)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + box.Kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true",
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		command.Env = append(command.Env, name+"="+variables[name])
	}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// generate renders a flavor. The default flavor is "".
func generate(t *testing.T, flavor string, variables map[string]string, arguments ...string) (out, problems string, err error) {
	t.Helper()
	return clusterctl(t, variables, append([]string{
		"generate", "cluster", "a-cluster", "--infrastructure", "portal:" + releaseVersion, "--flavor", flavor, "--target-namespace", namespace,
	}, arguments...)...)
}

// rendered returns the objects of a flavor.
func rendered(t *testing.T, flavor string, variables map[string]string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	out, problems, err := generate(t, flavor, variables)
	g.Expect(err).NotTo(HaveOccurred(), problems)
	return parse(t, out)
}

// components returns the objects that clusterctl init would apply.
func components(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return provider(t, nil)
}

func provider(t *testing.T, variables map[string]string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	out, problems, err := clusterctl(t, variables, "generate", "provider", "--infrastructure", "portal:"+releaseVersion)
	g.Expect(err).NotTo(HaveOccurred(), problems)
	return parse(t, out)
}

// written returns the content of a file of the release.
func written(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join(dir, name))
}

// source returns the content of a file of the checkout.
func source(t *testing.T, path string) string {
	t.Helper()
	return read(t, filepath.Join(root, path))
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func parse(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred(), manifests)
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	g.Expect(objects).NotTo(BeEmpty())
	return objects
}

// convert fills a typed object. Unknown fields are errors.
func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)).To(Succeed())
}

// one returns the only object of a kind.
func one(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	found := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o.GetKind() != kind })
	g.Expect(found).To(HaveLen(1), kind)
	return found[0]
}
