// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// rights is a set of single rights, such as "patch core/secrets".
type rights map[string]bool

func (r rights) add(rules ...rbacv1.PolicyRule) rights {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			if group == "" {
				group = "core"
			}
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						r[strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, group, resource, name))] = true
					}
				}
			}
		}
	}
	return r
}

// documented returns the rights of the table in docs/reference.md, by where they are needed. It checks that each row has a reason.
func documented(t *testing.T) map[string]rights {
	t.Helper()
	where := map[string]rights{"cluster": {}, "namespace": {}, "shared": {}, "own": {}, "default": {}}
	for line := range strings.Lines(source(t, reference)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || where[strings.TrimSpace(cells[4])] == nil {
			continue
		}
		if strings.TrimSpace(cells[5]) == "" {
			t.Errorf("docs/reference.md gives no reason for this right: %s", line)
		}
		resources, names, _ := strings.Cut(cells[2], ":")
		where[strings.TrimSpace(cells[4])].add(rbacv1.PolicyRule{
			APIGroups: words(cells[1]), Resources: words(resources), ResourceNames: words(names), Verbs: words(cells[3]),
		})
	}
	return where
}

// words splits a list of a table's cell or of a marker.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,;`", r) })
}

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=("[^"]*"|[^,]*),resources=([^,]*)(?:,resourceNames=([^,]*))?,verbs=(.*)$`)

// marked returns the rights in the code's RBAC markers.
func marked(t *testing.T) rights {
	t.Helper()
	all := rights{}
	for _, path := range files(t, "controllers/*.go", "controllers/*/*.go", "controllers/*/*/*.go", "controllers/*/*/*/*.go") {
		text := source(t, path)
		markers := marker.FindAllStringSubmatch(text, -1)
		for _, found := range markers {
			groups := strings.Split(strings.Trim(found[1], `"`), ";") // one of them may be empty
			all.add(rbacv1.PolicyRule{APIGroups: groups, Resources: words(found[2]), ResourceNames: words(found[3]), Verbs: words(found[4])})
		}
		if want := strings.Count(text, "+kubebuilder:rbac"); len(markers) != want {
			t.Errorf("%s: not all of the %d markers can be parsed", path, want)
		}
	}
	return all
}

// roles returns the rules of the roles in a file, by name.
func roles(t *testing.T, path string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for document := range strings.SplitSeq(source(t, path), "\n---\n") {
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

// TestRights checks that docs/reference.md has exactly the rights of the code, of the roles, and of the roles for one namespace.
func TestRights(t *testing.T) {
	where := documented(t)
	all := maps.Clone(where["cluster"])
	maps.Copy(all, where["namespace"])
	maps.Copy(all, where["shared"])
	same(t, "rights of the code", marked(t), all)
	for path, want := range map[string]rights{
		"rbac/role.yaml": all, "rbac/leader_election_role.yaml": where["own"],
		"namespaced/role.yaml": where["namespace"], "namespaced/events.yaml": where["default"],
	} {
		granted := roles(t, "config/"+path)
		if len(granted) != 1 {
			t.Errorf("%s has %d roles", path, len(granted))
		}
		for _, rules := range granted {
			same(t, path, rights{}.add(rules...), want)
		}
	}
	var patch []struct{ Value []rbacv1.PolicyRule }
	if err := yaml.Unmarshal([]byte(source(t, "config/namespaced/cluster_role.yaml")), &patch); err != nil || len(patch) != 1 {
		t.Fatalf("%d patches, %v", len(patch), err)
	}
	same(t, "the cluster role of config/namespaced", rights{}.add(patch[0].Value...), where["cluster"])
}

// TestTenantRoles checks the Roles that docs/tenants.md has tenants copy. A tenant cannot write a status, which controllers act on, sees the
// events that say why a drain is blocked, and has every kind of the provider. clusterctl reads the definitions of the kinds that a Cluster
// refers to.
func TestTenantRoles(t *testing.T) {
	const group, definitions = "infrastructure.cluster.x-k8s.io", "get apiextensions.k8s.io/customresourcedefinitions "
	has := map[string]rights{}
	for name, rules := range roles(t, "config/examples/tenant-roles.yaml") {
		has[name] = rights{}.add(rules...)
		for right := range has[name] {
			if strings.ContainsAny(right, "*") || strings.Contains(right, "/status") || strings.Contains(right, "/finalizers") {
				t.Errorf("%s may %s", name, right)
			}
		}
		if !strings.HasPrefix(name, "portal-clusterctl") && !has[name]["list core/events"] {
			t.Errorf("%s cannot list events", name)
		}
	}
	wanted := map[string]string{definitions + "clusters.cluster.x-k8s.io": "portal-clusterctl"}
	for _, path := range files(t, "config/crd/bases/*.yaml") {
		kind := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(source(t, path)), &kind); err != nil {
			t.Fatal(err)
		}
		resource := kind.Spec.Names.Plural
		if kind.Spec.Scope != apiextensionsv1.NamespaceScoped {
			continue
		}
		wanted["create "+group+"/"+resource] = "portal-owner"
		wanted["list "+group+"/"+resource] = "portal-reader"
		if !strings.HasSuffix(resource, "templates") {
			wanted[definitions+resource+"."+group] = "portal-clusterctl"
		}
	}
	for right, role := range wanted {
		if !has[role][right] {
			t.Errorf("%s may not %s", role, right)
		}
	}
	if wanted["create "+group+"/portalmachines"] == "" || len(has) != 4 {
		t.Errorf("wanted %v, %d roles", wanted, len(has))
	}
}
