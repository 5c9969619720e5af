// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAccepted checks that today's CRDs accept the objects of each release without pruning anything.
func TestAccepted(t *testing.T) {
	for _, release := range releases(t) {
		for _, s := range samples(t, release) {
			if s.ours() {
				t.Run(fmt.Sprintf("%s/%s/%s %s", release, s.file, s.GetKind(), s.GetName()), func(t *testing.T) { accepted(t, s) })
			}
		}
	}
}

func accepted(t *testing.T, s sample) {
	g := NewWithT(t)
	namespace := "accepted-" + strings.NewReplacer(".", "-").Replace(s.release+"-"+strings.TrimSuffix(s.file, ".yaml"))
	g.Expect(client.IgnoreAlreadyExists(box.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))).To(Succeed())
	o := s.DeepCopy()
	o.SetNamespace(namespace)
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	status, hasStatus := o.Object["status"]
	strict := &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	g.Expect(box.Client.Create(t.Context(), o, &client.CreateOptions{Raw: strict})).To(Succeed())
	if hasStatus {
		o.Object["status"] = status
		g.Expect(box.Client.Status().Update(t.Context(), o, &client.SubResourceUpdateOptions{
			UpdateOptions: client.UpdateOptions{Raw: &metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}},
		})).To(Succeed())
	}
	g.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
	for _, part := range []string{"spec", "status"} {
		g.Expect(lost(t, part, s.Object[part], o.Object[part])).To(BeEmpty(), "fields that are not as they were written")
	}
}

// lost returns the paths of fields that were written but not stored. It ignores added fields.
func lost(t *testing.T, path string, written, stored any) []string {
	was, isObject := written.(map[string]any)
	if !isObject {
		if is, was := string(mustMarshal(t, stored)), string(mustMarshal(t, written)); is != was {
			return []string{fmt.Sprintf("%s: %s, was %s", path, is, was)}
		}
		return nil
	}
	is, _ := stored.(map[string]any)
	var all []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		all = append(all, lost(t, path+"."+key, was[key], is[key])...)
	}
	return all
}
