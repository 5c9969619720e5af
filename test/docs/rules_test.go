// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPages checks rules for all pages.
func TestPages(t *testing.T) {
	for name, rule := range map[string]struct {
		check func(t *testing.T, p page) (found int)
		least int // of what all pages together have
	}{
		"links inside the repository lead to files and headings": {checkLinks, 100},
		"make targets exist": {checkMakeTargets, 20},
		"README.md links to every page in docs, and docs/development/README.md to every page in its folder": {checkIndex, 15},
		"Cluster API's version is that of go.mod, which is the tested one":                                  {checkCoreVersion, 3},
		"paths and tests that pages for contributors name exist":                                            {checkPaths, 100},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, p := range pages(t) {
				found += rule.check(t, p)
			}
			if found < rule.least {
				t.Errorf("only %d were found", found)
			}
		})
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"`)

func checkLinks(t *testing.T, p page) (found int) {
	for _, match := range link.FindAllStringSubmatch(p.text, -1) {
		target := match[1] + match[2]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		found++
		file, heading, _ := strings.Cut(target, "#")
		path := p.path
		if file != "" {
			path = filepath.Join(filepath.Dir(p.path), file)
		}
		if len(glob(t, path)) == 0 {
			t.Errorf("%s: %s leads nowhere", p.path, target)
		} else if heading != "" && strings.HasSuffix(path, ".md") && !read(t, path).has(heading) {
			t.Errorf("%s: %s names no heading", p.path, target)
		}
	}
	return found
}

var makeCall = regexp.MustCompile(`(?m)(?:^|[$;&|] *)make ([a-z][a-z0-9-]*)`)

func checkMakeTargets(t *testing.T, p page) (found int) {
	makefile := source(t, "Makefile")
	for _, match := range makeCall.FindAllStringSubmatch(p.code, -1) {
		if found++; !strings.Contains(makefile, "\n"+match[1]+":") {
			t.Errorf("%s: the Makefile has no target %q", p.path, match[1])
		}
	}
	return found
}

func checkIndex(t *testing.T, p page) (found int) {
	folder, name := filepath.Split(p.path)
	index, target := "README.md", p.path
	switch {
	case folder == "":
		return 0
	case filepath.Clean(folder) == development && name != "README.md":
		index, target = filepath.Join(folder, "README.md"), name
	}
	if !strings.Contains(read(t, index).text, "("+target) {
		t.Errorf("%s has no link to %s", index, p.path)
	}
	return 1
}

var core = regexp.MustCompile(`(?m)^\tsigs\.k8s\.io/cluster-api ((v\d+\.\d+)\.\d+)$`)

func checkCoreVersion(t *testing.T, p page) (found int) {
	required := core.FindStringSubmatch(source(t, "go.mod"))
	if required == nil {
		t.Fatal("go.mod requires no Cluster API")
	}
	told := regexp.MustCompile(regexp.QuoteMeta(required[2])+`\.\d+|--core cluster-api:v[\d.]+`).FindAllString(p.code+p.text, -1)
	for _, version := range told {
		if strings.TrimPrefix(version, "--core cluster-api:") != required[1] {
			t.Errorf("%s has %s, but go.mod requires %s", p.path, version, required[1])
		}
	}
	return len(told)
}

var (
	// repositoryPath matches a code span that names a file or folder in one of the repository's folders, with an optional trailing slash.
	repositoryPath = regexp.MustCompile(`^(?:\./)?((?:api|cloud|cmd|config|conformance|controllers|docs|hack|internal|templates|test|version)(?:/[\w.*-]+)+)/?$`)
	// testName matches the form in which a page names a test: the package, relative to the root, and the function.
	testName = regexp.MustCompile(`^([\w./-]+): ((?:Test|Fuzz)\w+)$`)
)

func checkPaths(t *testing.T, p page) (found int) {
	if p.path != "CONTRIBUTING.md" && filepath.Dir(p.path) != development {
		return 0
	}
	for span := range strings.Lines(p.code) {
		span = strings.TrimSpace(span)
		if named := testName.FindStringSubmatch(span); named != nil {
			found++
			if !slices.ContainsFunc(glob(t, named[1]+"/*_test.go"), func(path string) bool {
				return strings.Contains(source(t, path), "\nfunc "+named[2]+"(")
			}) {
				t.Errorf("%s: package %s has no test %s", p.path, named[1], named[2])
			}
		}
		if named := repositoryPath.FindStringSubmatch(span); named != nil {
			found++
			if len(glob(t, strings.TrimSuffix(named[1], "/..."))) == 0 {
				t.Errorf("%s: %s does not exist", p.path, named[1])
			}
		}
	}
	return found
}

// TestControlsHaveTests checks that every control in controls.md names a test, or links to the page that says why it has none. TestPages checks
// that the tests exist.
func TestControlsHaveTests(t *testing.T) {
	_, items, _ := strings.Cut(read(t, filepath.Join(development, "controls.md")).text, "\n- ")
	controls := strings.Split(items, "\n- ")
	for _, control := range controls {
		tests := 0
		for _, span := range codeSpan.FindAllStringSubmatch(control, -1) {
			if testName.MatchString(span[1]) {
				tests++
			} else if strings.Contains(span[1], "Test") {
				t.Errorf("%q names a test: write it as package: TestName", span[1])
			}
		}
		if tests == 0 && !strings.Contains(control, "[Not tried yet](") {
			t.Errorf("this control names no test: %s", control)
		}
	}
	if len(controls) < 30 {
		t.Errorf("only %d controls were found", len(controls))
	}
}
