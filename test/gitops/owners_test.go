// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Owners of fields, which are the columns of the table on the page.
const (
	user     = "user"
	provider = "provider"
	core     = "core"
)

// owner returns the owner behind a field manager. For the topology controller this is the user, who has written the ClusterClass.
func (f *fixture) owner(manager string) string {
	switch {
	case manager == f.git.applier.name, manager == "capi-topology":
		return user
	case manager == "cluster-api-provider-portal":
		return provider
	case manager == "cluster-api-controller-manager", strings.HasPrefix(manager, "capi-"):
		return core
	}
	return manager
}

// fieldsAreOwned compares the field managers of the provider's kinds with the table on the page. For the given kinds it also checks that every
// entry of the table is true.
func (f *fixture) fieldsAreOwned(complete ...string) {
	f.Helper()
	table, err := pages.Fields()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(table).NotTo(BeEmpty(), "rows of the table")
	for kind, row := range table {
		managed := map[string]bool{}
		for _, o := range f.objectsOf(kind) {
			for _, entry := range o.GetManagedFields() {
				for _, field := range fieldsIn(f, entry.FieldsV1.GetRawBytes()) {
					managed[f.owner(entry.Manager)+" "+field] = true
				}
			}
		}
		allowed := map[string][]string{
			user:     slices.Concat(row.User, row.Filled, []string{"labels", "annotations", "ownerReferences"}),
			provider: slices.Concat(row.Provider, row.Filled),
			core:     slices.Concat(row.Core, []string{"labels", "annotations"}),
		}
		for entry := range managed {
			who, field, _ := strings.Cut(entry, " ")
			f.Expect(allowed[who]).To(ContainElement(field), "%s sets %s of a %s, but docs/reference.md does not list this", who, field, kind)
		}
		for _, field := range row.Filled {
			f.Expect(managed[user+" "+field] && managed[provider+" "+field]).To(BeFalse(), "user and provider both set %s of a %s", field, kind)
		}
		if slices.Contains(complete, kind) {
			f.complete(kind, managed, map[string][]string{provider: row.Provider, core: row.Core})
		}
	}
}

// complete checks that every entry of the table was seen. In a topology, the topology controller sets some of the fields that core sets
// otherwise.
func (f *fixture) complete(kind string, managed map[string]bool, columns map[string][]string) {
	f.Helper()
	for who, fields := range columns {
		for _, field := range fields {
			f.Expect(managed[who+" "+field] || who == core && managed[user+" "+field]).To(BeTrue(),
				"docs/reference.md says that %s sets %s of a %s, but the fields that were set are %v", who, field, kind, managed)
		}
	}
}

// objectsOf returns the fixture's objects of a kind of the provider.
func (f *fixture) objectsOf(kind string) []unstructured.Unstructured {
	f.Helper()
	gvk := infrav1.GroupVersion.WithKind(kind)
	if kind != "PortalClusterIdentity" {
		return f.list(gvk)
	}
	identity := &unstructured.Unstructured{}
	identity.SetGroupVersionKind(gvk)
	if err := live.Get(f.Context(), client.ObjectKey{Name: f.Namespace}, identity); err != nil {
		f.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil
	}
	return []unstructured.Unstructured{*identity}
}

// fieldsIn returns the fields of an entry of managedFields, in the notation of the table.
func fieldsIn(f *fixture, raw []byte) (fields []string) {
	f.Helper()
	var entry map[string]map[string]any
	f.Expect(json.Unmarshal(raw, &entry)).To(Succeed())
	for key := range entry["f:spec"] {
		if key != "." {
			fields = append(fields, "spec."+strings.TrimPrefix(key, "f:"))
		}
	}
	if _, found := entry["f:status"]; found {
		fields = append(fields, "status")
	}
	for key, value := range entry["f:metadata"] {
		field := strings.TrimPrefix(key, "f:")
		if field != "annotations" {
			fields = append(fields, field)
			continue
		}
		inner, _ := value.(map[string]any)
		for annotation := range inner {
			switch {
			case strings.HasPrefix(annotation, "f:"+ours+"portal-"):
				fields = append(fields, "portal-*")
			case annotation != ".":
				fields = append(fields, field)
			}
		}
	}
	return fields
}
