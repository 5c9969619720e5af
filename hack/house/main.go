// SPDX-License-Identifier: Apache-2.0

// Command house counts what an engineer has to know of a checkout, for docs/development/README.md:
//
//	go run ./hack/house [directory]
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// house has the parsed files of the packages that are counted, by path. Tests and generated files do not count.
type house struct {
	root  string
	lines map[string]int
	files map[string]*ast.File
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	h := house{root: root, lines: map[string]int{}, files: map[string]*ast.File{}}
	for _, dir := range []string{"api", "cloud", "controllers"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), h.read); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	rooms := h.rooms("controllers/")
	fmt.Println("| | |\n| --- | --: |")
	show := func(what string, n int, which string) { fmt.Printf("| %s | %d%s |\n", what, n, which) }
	show("lines of `controllers/` without tests", h.count("controllers/"), "")
	show("largest package", rooms[0].n, " ("+rooms[0].name+")")
	methods := largest(h.methods())
	show("methods on the largest type", methods.n, " ("+methods.name+")")
	fields := largest(h.fields())
	show("fields of the largest struct that functions pass on", fields.n, " ("+fields.name+")")
	show("kinds of write in a plan", h.constants("controllers/portalcontrolplane/workers/claims/", regexp.MustCompile(`^[A-Z]\w+$`), "Step"), "")
	show("fields that a plan may change", len(h.wanted("controllers/portalcontrolplane/workers/claims/")), "")
	show("annotations and hooks", h.constants("api/", regexp.MustCompile(`(Annotation|Hook)$`), ""), "")
	show("reasons", h.constants("api/", regexp.MustCompile(`Reason$`), ""), "")
	show("memories with a lock of their own", h.memories(), "")
	show("functions that interpret a 404", h.callers("IsNotFound", "cloud"), "")
	show("files from `kubectl scale` to the request", h.path(), "")
	show("lines of `cloud/` without emulator, conformance and their tests",
		h.count("cloud/")-h.count("cloud/emulator/")-h.count("cloud/conformance/")-h.count("cloud/faulttest/")-h.count("cloud/fleet/"), "")
	fmt.Println("\n| Room of `controllers/` | Lines |\n| --- | --: |")
	for _, room := range rooms {
		fmt.Printf("| %s | %d |\n", room.name, room.n)
	}
}

func (h house) read(path string, entry fs.DirEntry, err error) error {
	if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(h.root, path)
	if err != nil {
		return err
	}
	h.lines[name] = strings.Count(string(raw), "\n")
	h.files[name], err = parser.ParseFile(token.NewFileSet(), path, raw, 0)
	return err
}

// figure is a count and what it belongs to.
type figure struct {
	name string
	n    int
}

func sorted(counts map[string]int) []figure {
	figures := []figure{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		figures = append(figures, figure{name, counts[name]})
	}
	slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(b.n, a.n) })
	return figures
}

func largest(counts map[string]int) figure { return append(sorted(counts), figure{})[0] }

// count adds up the lines of a directory.
func (h house) count(under string) (n int) {
	for name, lines := range h.lines {
		if strings.HasPrefix(name, under) {
			n += lines
		}
	}
	return n
}

// rooms are the packages of a directory, the largest first.
func (h house) rooms(under string) []figure {
	counts := map[string]int{}
	for name, lines := range h.lines {
		if strings.HasPrefix(name, under) {
			counts[filepath.Dir(name)] += lines
		}
	}
	return sorted(counts)
}

// each calls visit for every node of the files of a directory.
func (h house) each(under string, visit func(room string, n ast.Node)) {
	for name, file := range h.files {
		if strings.HasPrefix(name, under) {
			ast.Inspect(file, func(n ast.Node) bool { visit(filepath.Base(filepath.Dir(name)), n); return true })
		}
	}
}

// named returns the name of a type that an expression names, with or without a pointer.
func named(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// methods counts the methods of each type.
func (h house) methods() map[string]int {
	counts := map[string]int{}
	h.each("controllers/", func(room string, n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Recv != nil {
			counts[room+"."+named(f.Recv.List[0].Type)]++
		}
	})
	return counts
}

// fields counts the fields of each struct that at least five functions of its package have as a parameter or a receiver, beside
// Reconcilers, which do not travel.
func (h house) fields() map[string]int {
	counts, passed := map[string]int{}, map[string]int{}
	h.each("controllers/", func(room string, n ast.Node) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all := n.Type.Params.List
			if n.Recv != nil {
				all = slices.Concat(all, n.Recv.List)
			}
			for _, field := range all {
				passed[room+"."+named(field.Type)]++
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name != "Reconciler" {
				for _, field := range s.Fields.List {
					counts[room+"."+n.Name.Name] += max(1, len(field.Names))
				}
			}
		}
	})
	maps.DeleteFunc(counts, func(name string, _ int) bool { return passed[name] < 5 })
	return counts
}

// constants counts constants by name. If ofType is not empty, a constant counts if it has that type, or follows one that has.
func (h house) constants(under string, name *regexp.Regexp, ofType string) (count int) {
	h.each(under, func(_ string, n ast.Node) {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return
		}
		of := ""
		for _, spec := range decl.Specs {
			values, _ := spec.(*ast.ValueSpec)
			if values.Type != nil {
				of = named(values.Type)
			}
			for _, id := range values.Names {
				if name.MatchString(id.Name) && (ofType == "" || of == ofType) {
					count++
				}
			}
		}
	})
	return count
}

// wanted returns the fields of objects that the planner assigns to, as they should be.
func (h house) wanted(under string) map[string]bool {
	fields := map[string]bool{}
	h.each(under, func(_ string, n ast.Node) {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return
		}
		for _, left := range assign.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok {
				if of, ok := field.X.(*ast.SelectorExpr); ok && of.Sel.Name == "want" {
					fields[field.Sel.Name] = true
				}
			}
		}
	})
	return fields
}

// memories counts the structs that hold a lock or a concurrent map.
func (h house) memories() (count int) {
	h.each("controllers/", func(_ string, n ast.Node) {
		s, ok := n.(*ast.StructType)
		if !ok {
			return
		}
		for _, field := range s.Fields.List {
			if of, ok := field.Type.(*ast.SelectorExpr); ok && named(of.X) == "sync" && slices.Contains([]string{"Mutex", "RWMutex", "Map"}, of.Sel.Name) {
				count++
				return
			}
		}
	})
	return count
}

// callers counts the functions that use a function of another package.
func (h house) callers(function, of string) (count int) {
	h.each("controllers/", func(_ string, n ast.Node) {
		if _, ok := n.(*ast.FuncDecl); !ok {
			return
		}
		uses := false
		ast.Inspect(n, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			uses = uses || ok && named(s.X) == of && s.Sel.Name == function
			return true
		})
		if uses {
			count++
		}
	})
	return count
}

var goFile = regexp.MustCompile(`\]\(\.\./\.\./([\w/.]+\.go)\)`)

// path counts the files that the page for developers names on the way from kubectl scale to the request.
func (h house) path() int {
	page, _ := os.ReadFile(filepath.Join(h.root, "docs", "development", "README.md"))
	_, section, _ := strings.Cut(string(page), "**The pass.**")
	section, _, _ = strings.Cut(section, "**The answer**")
	files := map[string]bool{}
	for _, found := range goFile.FindAllStringSubmatch(section, -1) {
		files[found[1]] = true
	}
	return len(files)
}
