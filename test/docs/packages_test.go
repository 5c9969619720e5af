// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestControllersAreListed checks that controllers/doc.go lists every folder in controllers/, and every kind of outcome.
func TestControllersAreListed(t *testing.T) {
	text := packageDoc(t, "controllers/doc.go")
	listed := listedFirst(text, `[a-z]+`)
	folders, err := os.ReadDir(filepath.Join(root, "controllers"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if folder.IsDir() && !listed[folder.Name()] {
			t.Errorf("controllers/doc.go does not list %s", folder.Name())
		}
		delete(listed, folder.Name())
	}
	if len(listed) > 0 {
		t.Errorf("controllers/doc.go lists %v, which do not exist", slices.Sorted(maps.Keys(listed)))
	}

	kinds := regexp.MustCompile(`(?s)\tDone +Kind = iota.*?\n\)`).FindString(source(t, "controllers/outcome/outcome.go"))
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
	text := packageDoc(t, "cloud/doc.go")
	listed := listedFirst(text, `[a-z]+ +[a-z]+\.go`)
	handler := regexp.MustCompile(`(?m)^func \(\w+ \*([a-z]+)\) do\(ctx context\.Context, c \*call\)`)
	found := 0
	for _, file := range files(t, "cloud/*.go") {
		for _, match := range handler.FindAllStringSubmatch(source(t, file), -1) {
			if found++; !listed[match[1]] {
				t.Errorf("cloud/doc.go does not list the handler %s", match[1])
			}
			delete(listed, match[1])
		}
	}
	if found == 0 || len(listed) > 0 {
		t.Errorf("%d handlers were found; cloud/doc.go also lists %v", found, slices.Sorted(maps.Keys(listed)))
	}
	if numbers := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight"}; !strings.Contains(text, numbers[found]+" small handlers") {
		t.Errorf("cloud/doc.go does not mention %s small handlers", numbers[found])
	}
}

// listedFirst returns the first word of each indented line that begins with the pattern.
func listedFirst(text, pattern string) map[string]bool {
	words := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^\t(`+pattern+`) `).FindAllStringSubmatch(text, -1) {
		word, _, _ := strings.Cut(match[1], " ")
		words[word] = true
	}
	return words
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
