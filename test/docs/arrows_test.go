// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArrows checks each arrow on the path through the code: the function before it calls, or lists, the one after it.
func TestArrows(t *testing.T) {
	path := read(t, filepath.Join(development, "README.md")).section(t, "Read the code")
	calls := calls(t)
	arrows := regexp.MustCompile("`([\\w.]+)`[^`]*→[^`]*`([\\w.]+)`")
	count := 0
	for at := 0; ; count++ {
		found := arrows.FindStringSubmatchIndex(path[at:])
		if found == nil {
			break
		}
		from, to := path[at+found[2]:at+found[3]], path[at+found[4]:at+found[5]]
		if !calls[from][to[strings.LastIndex(to, ".")+1:]] {
			t.Errorf("%s does not call %s", from, to)
		}
		at += found[4] - 1 // the function after the arrow is before the next one
	}
	if arrows := strings.Count(path, "→"); count != arrows || count < 15 {
		t.Errorf("%d of %d arrows have a function before and after them", count, arrows)
	}
}

// calls returns the names that each function of the controllers and the client uses. A method is found with its receiver's type and without.
func calls(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, file := range files(t, "controllers/*/*.go", "cloud/*.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			for _, name := range []string{f.Name.Name, receiver(f) + "." + f.Name.Name} {
				if all[name] == nil {
					all[name] = map[string]bool{}
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if used, ok := n.(*ast.Ident); ok {
						all[name][used.Name] = true
					}
					return true
				})
			}
		}
	}
	return all
}

// receiver returns the type of a method's receiver, or "".
func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv != nil {
		ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				name = id.Name
			}
			return true
		})
	}
	return name
}
