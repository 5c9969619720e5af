// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// identifier matches a code span that may be a name of Go, also of a method or a field.
var identifier = regexp.MustCompile(`^(?:\w+\.)?([A-Za-z_]\w*)$`)

// notGo are the code spans of changing.md that look like names of Go, and what they are.
var notGo = map[string]string{
	"cloud":        "a package",
	"Condition":    "the end of names",
	"Reason":       "the end of names",
	"Event":        "the beginning of names",
	"Test":         "the beginning of names",
	"runbook_url":  "an annotation of an alert",
	"s.Eventually": "of gomega",
}

// TestIdentifiersOfChanges checks that the code has every function, type, variable and field that docs/development/changing.md names.
func TestIdentifiersOfChanges(t *testing.T) {
	declared, found := declaredNames(t), 0
	for span := range strings.Lines(read(t, development+"/changing.md").code) {
		span = strings.TrimSpace(span)
		name := identifier.FindStringSubmatch(span)
		if name == nil || notGo[span] != "" || exists(t, "*/"+span) || exists(t, span) || regexp.MustCompile(`\.(go|mod|md|yaml)$`).MatchString(span) {
			continue
		}
		found++
		if !declared[name[1]] {
			t.Errorf("changing.md names %s, which no code declares", span)
		}
	}
	if found < 10 {
		t.Errorf("only %d identifiers were found", found)
	}
}

// declaredNames returns every name that Go code of the repository declares, also in tests.
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
