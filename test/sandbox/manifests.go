// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner owns the fields of the objects that the sandbox installs.
const fieldOwner = client.FieldOwner("portal-sandbox")

// provider renders config/default as make release-manifests would, with the components as docs/tenants.md describes.
func (s *Sandbox) provider(ctx context.Context) ([]*unstructured.Unstructured, error) {
	if len(s.options.Components) == 0 {
		return s.rendered(ctx, s.File("config", "default"))
	}
	overlay, err := filepath.EvalSymlinks(s.Dir) // kustomize resolves relative paths from there
	if err != nil {
		return nil, err
	}
	overlay = filepath.Join(overlay, "overlay")
	config, err := filepath.Rel(overlay, s.File("config"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(overlay, 0o700); err != nil {
		return nil, err
	}
	content := "resources: [" + filepath.Join(config, "default") + "]\ncomponents:\n"
	for _, component := range s.options.Components {
		content += "  - " + filepath.Join(config, component) + "\n"
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		return nil, err
	}
	return s.rendered(ctx, overlay)
}

// rendered returns the objects of a folder.
func (s *Sandbox) rendered(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	manifests, err := s.kustomize(ctx, folder)
	if err != nil {
		return nil, err
	}
	return Parse(manifests)
}

// kustomize renders a folder.
func (s *Sandbox) kustomize(ctx context.Context, folder string) ([]byte, error) {
	command := exec.CommandContext(ctx, s.Binary("kustomize"), "build", folder)
	var problems bytes.Buffer
	command.Stderr = &problems
	manifests, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w\n%s", err, problems.Bytes())
	}
	return manifests, nil
}

// Components returns infrastructure-components.yaml of a checkout, as make release-manifests writes it.
func (s *Sandbox) Components(ctx context.Context, root, image string) (string, error) {
	manifests, err := s.kustomize(ctx, filepath.Join(root, "config", "default"))
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(string(manifests), "image: controller:latest\n", "image: "+image+"\n"), nil
}

// namespaces returns the Namespaces of objects that have none among them. Users create these before they install the objects.
func namespaces(objects []*unstructured.Unstructured) (missing []*unstructured.Unstructured) {
	known := map[string]bool{"": true}
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			known[object.GetName()] = true
		}
	}
	for _, object := range objects {
		if name := object.GetNamespace(); !known[name] {
			known[name] = true
			namespace := &unstructured.Unstructured{}
			namespace.SetAPIVersion("v1")
			namespace.SetKind("Namespace")
			namespace.SetName(name)
			missing = append(missing, namespace)
		}
	}
	return missing
}

// Parse reads the documents of a YAML file.
func Parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// install applies the objects of the given kinds, kind by kind, and waits until the API server serves their CRDs.
func (s *Sandbox) install(ctx context.Context, objects []*unstructured.Unstructured, kinds ...string) error {
	var names []string
	for _, kind := range kinds {
		for _, object := range objects {
			if object.GetKind() != kind {
				continue
			}
			labelInstalled(object)
			if err := s.apply(ctx, object); err != nil {
				return err
			}
			if kind == "CustomResourceDefinition" {
				names = append(names, object.GetName())
			}
		}
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return s.served(ctx, names)
	})
}

// labelInstalled labels a CRD as clusterctl does. clusterctl describe and move, and the validators of Cluster API's test framework, ignore
// kinds whose CRD has no label.
func labelInstalled(object *unstructured.Unstructured) {
	if object.GetKind() != "CustomResourceDefinition" {
		return
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterctlv1.ClusterctlLabel] = ""
	object.SetLabels(labels)
}

func (s *Sandbox) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

func (s *Sandbox) served(ctx context.Context, names []string) (bool, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.Client.List(ctx, crds); err != nil {
		return false, err
	}
	for _, crd := range crds.Items {
		if slices.Contains(names, crd.Name) && !apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established) {
			return false, nil
		}
	}
	return true, nil
}
