// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	rulesFile = root + "/config/metrics/rules/rules.yaml"
)

// dashboard holds the fields of a dashboard that the tests read.
type dashboard struct {
	name       string
	UID        string `json:"uid"`
	Title      string
	Templating struct{ List []variable }
	Panels     []panel
}

// variable is a choice that Grafana offers above the panels.
type variable struct {
	Name, Type, Query string
	IncludeAll        bool
	AllValue          string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ UID string }
	Targets                  []target
}

type target struct {
	RefID, Expr string
	Instant     bool
}

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func readDashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "config", "metrics", "dashboards", "*.json"))
	if err != nil || len(paths) != 4 {
		t.Fatalf("%v, %v: want the dashboards fleet, accounts, jobs and cluster", paths, err)
	}
	for _, path := range paths {
		d := dashboard{name: strings.TrimSuffix(filepath.Base(path), ".json")}
		if err := json.Unmarshal(readFile(t, path), &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, d)
	}
	return all
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(readFile(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestPanels checks that each panel has a description, panels do not overlap, and the data source can be chosen.
func TestPanels(t *testing.T) {
	for _, d := range readDashboards(t) {
		if d.UID != "capportal-"+d.name || d.Title == "" {
			t.Errorf("%s: uid %q, title %q", d.name, d.UID, d.Title)
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || ids[p.ID] {
				t.Errorf("%s: panel %d %q lacks a title, a description, a query, the chosen data source or an id of its own", d.name, p.ID, p.Title)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken || x > 23 {
						t.Fatalf("%s: panel %q at %d, %d is on panel %q, or beyond the edge", d.name, p.Title, x, y, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

var (
	documented = regexp.MustCompile("(?m)^\\| `(capportal_[a-z_]+)` \\|")
	metric     = regexp.MustCompile(`(?:^|[^:a-z_])(capportal_[a-z_]+)`) // without recorded series, such as account:capportal_…
	histogram  = regexp.MustCompile(`_(bucket|sum|count)$`)
	named      = regexp.MustCompile(`\b(?:reason|condition|type)=~?"([A-Za-z|]+)"`)
	constant   = regexp.MustCompile(`= "([A-Za-z]+)"`)
)

// TestNames checks that queries use only metrics, conditions and reasons that exist. The live test cannot notice this for a query with "or
// vector(0)".
func TestNames(t *testing.T) {
	metrics, constants := map[string]bool{}, map[string]bool{}
	for _, found := range documented.FindAllStringSubmatch(string(readFile(t, root+"/docs/reference.md")), -1) {
		metrics[found[1]] = true
	}
	for _, found := range constant.FindAllStringSubmatch(string(readFile(t, root+"/api/v1beta1/conditions.go")), -1) {
		constants[found[1]] = true
	}
	count := 0
	check := func(where, expr string) {
		for _, found := range metric.FindAllStringSubmatch(expr, -1) {
			if !metrics[found[1]] && !metrics[histogram.ReplaceAllString(found[1], "")] {
				t.Errorf("%s asks for %s, which does not exist", where, found[1])
			}
		}
		for _, found := range named.FindAllStringSubmatch(expr, -1) {
			for name := range strings.SplitSeq(found[1], "|") {
				if count++; !constants[name] {
					t.Errorf("%s asks for the condition or reason %q, which does not exist", where, name)
				}
			}
		}
	}
	for _, r := range readRules(t) {
		check(r.Alert+r.Record, r.Expr)
	}
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				check(d.name+", "+p.Title, target.Expr)
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d conditions and reasons were found", count)
	}
}
