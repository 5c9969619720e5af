// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// tenantRoles returns the rules of the Roles and the ClusterRole that docs/tenants.md has tenants copy, by their names.
func tenantRoles(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for document := range strings.SplitSeq(source(t, "config/examples/tenant-roles.yaml"), "\n---\n") {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) > 0 {
			all[role.Name] = role.Rules
		}
	}
	return all
}

// kinds returns the provider's kinds that have a namespace, as resources.
func kinds(t *testing.T) (resources []string) {
	t.Helper()
	for _, path := range files(t, "config/crd/bases/*.yaml") {
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(source(t, path)), &definition); err != nil {
			t.Fatal(err)
		}
		if definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
			resources = append(resources, definition.Spec.Names.Plural)
		}
	}
	return resources
}

// TestTenantRoles checks the Roles for tenants. A tenant cannot write a status, which controllers act on, sees the events that say why a drain
// is blocked, and has every kind of the provider. clusterctl reads the definitions of the kinds that a Cluster refers to.
func TestTenantRoles(t *testing.T) {
	const group = "infrastructure.cluster.x-k8s.io"
	roles := tenantRoles(t)
	for name, rules := range roles {
		granted := rights{}
		granted.addRules(rules)
		for right := range granted {
			if strings.ContainsAny(right, "*") || strings.Contains(right, "/status") || strings.Contains(right, "/finalizers") {
				t.Errorf("%s may %s", name, right)
			}
		}
		if strings.HasPrefix(name, "portal-clusterctl") {
			continue
		}
		if !granted["list core/events"] {
			t.Errorf("%s cannot list events", name)
		}
	}
	all := kinds(t)
	owner, reader, clusterctl := rights{}, rights{}, rights{}
	owner.addRules(roles["portal-owner"])
	reader.addRules(roles["portal-reader"])
	clusterctl.addRules(roles["portal-clusterctl"])
	for _, resource := range all {
		if !owner["create "+group+"/"+resource] || !reader["list "+group+"/"+resource] {
			t.Errorf("portal-owner may not create %[1]s, or portal-reader may not list %[1]s", resource)
		}
		definition := "get apiextensions.k8s.io/customresourcedefinitions " + resource + "." + group
		if !strings.HasSuffix(resource, "templates") && !clusterctl[definition] {
			t.Errorf("clusterctl cannot read the definition of %s", resource)
		}
	}
	if !clusterctl["get apiextensions.k8s.io/customresourcedefinitions clusters.cluster.x-k8s.io"] {
		t.Error("clusterctl cannot read the definition of clusters")
	}
	if !slices.Contains(all, "portalmachines") || len(roles) != 4 {
		t.Errorf("kinds %v, %d roles", all, len(roles))
	}
}
