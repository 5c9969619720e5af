// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// rights is a set of single rights, such as "patch core/secrets".
type rights map[string]bool

func (r rights) add(groups, resources, names, verbs []string) {
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					if group == "" {
						group = "core"
					}
					r[strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, group, resource, name))] = true
				}
			}
		}
	}
}

func (r rights) addRules(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		r.add(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs)
	}
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
		where[strings.TrimSpace(cells[4])].add(words(cells[1]), words(resources), words(names), words(cells[3]))
	}
	return where
}

func words(cell string) (all []string) {
	for word := range strings.SplitSeq(cell, ",") {
		if word = strings.Trim(word, " `"); word != "" {
			all = append(all, word)
		}
	}
	return all
}

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=("[^"]*"|[^,]*),resources=([^,]*)(?:,resourceNames=([^,]*))?,verbs=(.*)$`)

// marked returns the rights in the code's RBAC markers.
func marked(t *testing.T) rights {
	t.Helper()
	all := rights{}
	for _, path := range files(t, "controllers/*.go", "controllers/*/*.go") {
		text := source(t, path)
		markers := marker.FindAllStringSubmatch(text, -1)
		for _, found := range markers {
			var names []string
			if found[3] != "" {
				names = strings.Split(found[3], ";")
			}
			all.add(strings.Split(strings.Trim(found[1], `"`), ";"), strings.Split(found[2], ";"), names, strings.Split(found[4], ";"))
		}
		if want := strings.Count(text, "+kubebuilder:rbac"); len(markers) != want {
			t.Errorf("%s: not all of the %d markers can be parsed", path, want)
		}
	}
	return all
}

// rules returns the rights of the first role in a file.
func rules(t *testing.T, path string) rights {
	t.Helper()
	document, _, _ := strings.Cut(strings.TrimPrefix(source(t, "config/"+path), "---\n"), "\n---\n")
	role := rbacv1.ClusterRole{}
	if err := yaml.Unmarshal([]byte(document), &role); err != nil {
		t.Fatal(err)
	}
	all := rights{}
	all.addRules(role.Rules)
	return all
}

// patched returns the rights in a patch that replaces the rules.
func patched(t *testing.T, path string) rights {
	t.Helper()
	var patch []struct{ Value []rbacv1.PolicyRule }
	if err := yaml.Unmarshal([]byte(source(t, "config/"+path)), &patch); err != nil {
		t.Fatal(err)
	}
	all := rights{}
	for _, p := range patch {
		all.addRules(p.Value)
	}
	return all
}

// TestRights checks that docs/reference.md has exactly the rights of the code, of the roles, and of the roles for one namespace.
func TestRights(t *testing.T) {
	where := documented(t)
	all := maps.Clone(where["cluster"])
	maps.Copy(all, where["namespace"])
	maps.Copy(all, where["shared"])
	for title, test := range map[string]struct{ documented, granted rights }{
		"the code":                            {all, marked(t)},
		"config/rbac/role.yaml":               {all, rules(t, "rbac/role.yaml")},
		"the manager's namespace":             {where["own"], rules(t, "rbac/leader_election_role.yaml")},
		"config/namespaced, of the cluster":   {where["cluster"], patched(t, "namespaced/cluster_role.yaml")},
		"config/namespaced, of the namespace": {where["namespace"], rules(t, "namespaced/role.yaml")},
		"config/namespaced, of events":        {where["default"], rules(t, "namespaced/events.yaml")},
	} {
		t.Run(title, func(t *testing.T) {
			if len(test.granted) == 0 {
				t.Fatal("no rights were found")
			}
			for _, right := range slices.Sorted(maps.Keys(test.granted)) {
				if !test.documented[right] {
					t.Errorf("docs/reference.md has no reason for %s", right)
				}
			}
			for _, right := range slices.Sorted(maps.Keys(test.documented)) {
				if !test.granted[right] {
					t.Errorf("docs/reference.md has a reason for %s, which is not granted", right)
				}
			}
		})
	}
}
