// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// code has what pages say of the Go code of the repository.
type code struct {
	declared map[string]bool            // every name, also in tests
	used     map[string]map[string]bool // by function: the names in it. A method is found with its receiver's type and without
}

// parse reads the code once. What is built, such as the previous release, is not of the repository.
var parse = sync.OnceValues(func() (code, error) {
	all := code{map[string]bool{}, map[string]map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if path == filepath.Join(root, "bin") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(file, all.see)
		}
		return err
	})
	return all, err
})

func parsed(t *testing.T) code {
	t.Helper()
	all, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (c code) see(n ast.Node) bool {
	var names []*ast.Ident
	switch n := n.(type) {
	case *ast.FuncDecl:
		names = []*ast.Ident{n.Name}
		uses, known := namesIn(n), []string{n.Name.Name}
		if n.Recv != nil {
			for receiver := range namesIn(n.Recv.List[0].Type) {
				known = append(known, receiver+"."+n.Name.Name)
			}
		}
		for _, name := range known {
			if c.used[name] == nil {
				c.used[name] = map[string]bool{}
			}
			maps.Copy(c.used[name], uses)
		}
	case *ast.TypeSpec:
		names = []*ast.Ident{n.Name}
	case *ast.Field:
		names = n.Names
	case *ast.ValueSpec:
		names = n.Names
	}
	for _, name := range names {
		c.declared[name.Name] = true
	}
	return true
}

func namesIn(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if used, ok := n.(*ast.Ident); ok {
			names[used.Name] = true
		}
		return true
	})
	return names
}

// TestArrows checks each arrow on the path through the code: the function before it calls, or lists, the one after it.
func TestArrows(t *testing.T) {
	code := parsed(t)
	parts := strings.Split(read(t, development+"/README.md").section(t, "Read the code"), "→")
	if len(parts) < 15 {
		t.Errorf("only %d arrows were found", len(parts)-1)
	}
	for i := range parts[1:] {
		before, after := codeSpan.FindAllStringSubmatch(parts[i], -1), codeSpan.FindStringSubmatch(parts[i+1])
		if before == nil || after == nil {
			t.Fatalf("%q → %q lacks a function", parts[i], parts[i+1])
		}
		from, to := before[len(before)-1][1], after[1]
		if !code.used[from][to[strings.LastIndex(to, ".")+1:]] {
			t.Errorf("%s does not call %s", from, to)
		}
	}
}

var (
	// identifier matches a code span that may be a name of Go, also of a method or a field.
	identifier = regexp.MustCompile(`^(?:\w+\.)?([A-Za-z_]\w*)$`)
	fileName   = regexp.MustCompile(`\.(go|mod|md|yaml)$`)
	// notGo are the code spans of changing.md that look like names of Go: a package, ends and beginnings of names, an annotation of an alert, and
	// a name of gomega.
	notGo = []string{"cloud", "Condition", "Reason", "Event", "Test", "runbook_url", "s.Eventually"}
)

// TestIdentifiersOfChanges checks that the code has every function, type, variable and field that docs/development/changing.md names.
func TestIdentifiersOfChanges(t *testing.T) {
	code, found := parsed(t), 0
	for span := range strings.Lines(read(t, development+"/changing.md").code) {
		span = strings.TrimSpace(span)
		name := identifier.FindStringSubmatch(span)
		if name == nil || slices.Contains(notGo, span) || fileName.MatchString(span) || len(glob(t, "*/"+span)) > 0 || len(glob(t, span)) > 0 {
			continue
		}
		if found++; !code.declared[name[1]] {
			t.Errorf("changing.md names %s, which no code declares", span)
		}
	}
	if found < 10 {
		t.Errorf("only %d identifiers were found", found)
	}
}

// TestControllersAreListed checks that controllers/doc.go lists every package in controllers/, and every kind of outcome.
func TestControllersAreListed(t *testing.T) {
	text := packageDoc(t, "controllers/doc.go")
	var folders []string
	for _, path := range files(t, "controllers/*/*.go", "controllers/*/*/*.go", "controllers/*/*/*/*.go") {
		folders = append(folders, strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "controllers/"))
	}
	slices.Sort(folders)
	same(t, "controllers/doc.go", slices.Compact(folders), listedFirst(text, `[a-z/]+`))

	kinds := regexp.MustCompile(`(?s)\tDone +Kind = iota.*?\n\)`).FindString(source(t, "controllers/shared/outcome/outcome.go"))
	names := regexp.MustCompile(`(?m)^\t([A-Z]\w+)\b`).FindAllStringSubmatch(kinds, -1)
	for _, name := range names {
		if !regexp.MustCompile(`outcome .*\b` + strings.ToLower(name[1]) + `\b`).MatchString(text) {
			t.Errorf("controllers/doc.go does not name the outcome %s", name[1])
		}
	}
	if len(names) < 4 {
		t.Errorf("only %d kinds of outcomes were found", len(names))
	}
}

// TestChainIsListed checks that cloud/doc.go lists exactly the handlers that have a method do.
func TestChainIsListed(t *testing.T) {
	handler := regexp.MustCompile(`(?m)^func \(\w+ \*([a-z]+)\) do\(ctx context\.Context, c \*call\)`)
	var handlers []string
	for _, file := range files(t, "cloud/*.go") {
		for _, match := range handler.FindAllStringSubmatch(source(t, file), -1) {
			handlers = append(handlers, match[1])
		}
	}
	slices.Sort(handlers)
	same(t, "cloud/doc.go", handlers, listedFirst(packageDoc(t, "cloud/doc.go"), `[a-z]+ +[a-z]+\.go`))
}

// listedFirst returns the first word of each indented line that begins with the pattern, sorted.
func listedFirst(text, pattern string) (words []string) {
	for _, match := range regexp.MustCompile(`(?m)^\t(`+pattern+`) `).FindAllStringSubmatch(text, -1) {
		words = append(words, strings.Fields(match[1])[0])
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// packageDoc returns the package comment in a file.
func packageDoc(t *testing.T, path string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return file.Doc.Text()
}
