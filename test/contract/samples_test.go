// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestSamplesAreKept checks that the CRDs accept the objects that each release has written (package samples), and prune nothing.
func TestSamplesAreKept(t *testing.T) {
	files, err := filepath.Glob("../samples/testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			f := newFixture(t)
			reader, err := os.Open(file)
			f.Expect(err).NotTo(HaveOccurred())
			defer reader.Close()
			for decoder := yaml.NewYAMLOrJSONDecoder(reader, 4096); ; {
				o := &unstructured.Unstructured{}
				if decoder.Decode(&o.Object) != nil {
					break // TestRead of package samples reads all documents
				}
				if o.GroupVersionKind().Group == infrav1.GroupVersion.Group {
					f.kept(o)
				}
			}
		})
	}
}

// kept writes an object with its status, and checks that the API server stores all of both.
func (f *fixture) kept(written *unstructured.Unstructured) {
	f.Helper()
	o := written.DeepCopy()
	o.SetNamespace(f.namespace)
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	title, strict := o.GetKind()+" "+o.GetName(), metav1.FieldValidationStrict
	f.Expect(box.Client.Create(f.Context(), o, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: strict}})).To(Succeed(), title)
	if status, has := written.Object["status"]; has {
		o.Object["status"] = status
		f.Expect(box.Client.Status().Update(f.Context(), o, &client.SubResourceUpdateOptions{
			UpdateOptions: client.UpdateOptions{Raw: &metav1.UpdateOptions{FieldValidation: strict}},
		})).To(Succeed(), title)
	}
	f.Expect(box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
	for _, part := range []string{"spec", "status"} {
		f.Expect(lost(part, written.Object[part], o.Object[part])).To(BeEmpty(), "%s: fields that are not as they were written", title)
	}
}

// lost returns the paths of fields that were written but not stored. It ignores added fields.
func lost(path string, written, stored any) (all []string) {
	was, isObject := written.(map[string]any)
	if !isObject {
		is, _ := json.Marshal(stored)
		if was, _ := json.Marshal(written); string(is) != string(was) {
			return []string{fmt.Sprintf("%s: %s, was %s", path, is, was)}
		}
		return nil
	}
	is, _ := stored.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(was)) {
		all = append(all, lost(path+"."+key, was[key], is[key])...)
	}
	return all
}
