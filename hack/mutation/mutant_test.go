// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package sample

const bound = 10 * 2

func count(list []int, all bool) (n int) {
	for i := -1; i < len(list); i++ {
		switch {
		case list[i] == 0, !all && i > 1:
			n += 2
		}
	}
	return n
}
`

// TestMutate checks that operators are changed wherever they are: in constants and in the conditions of cases, too.
func TestMutate(t *testing.T) {
	list, err := mutate("pkg/sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, m.name)
		if strings.Count(string(m.content), "\n") != strings.Count(sample, "\n") || string(m.content) == sample {
			t.Errorf("%s changes another line, or nothing", m.name)
		}
	}
	want := []string{
		"pkg/sample.go: declaration: const bound = 10 / 2",
		"pkg/sample.go: count: for i := +1; i < len(list); i++ {",
		"pkg/sample.go: count: for i := -1; i <= len(list); i++ {",
		"pkg/sample.go: count: for i := -1; i >= len(list); i++ {",
		"pkg/sample.go: count: for i := -1; i < len(list); i-- {",
		"pkg/sample.go: count: case list[i] != 0, !all && i > 1:",
		"pkg/sample.go: count: case list[i] == 0, !all || i > 1:",
		"pkg/sample.go: count: case list[i] == 0, all && i > 1:",
		"pkg/sample.go: count: case list[i] == 0, !all && i >= 1:",
		"pkg/sample.go: count: case list[i] == 0, !all && i <= 1:",
		"pkg/sample.go: count: n -= 2",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReport checks that the run fails for a survivor without an explanation, and for an explanation without a survivor.
func TestReport(t *testing.T) {
	for name, test := range map[string]struct {
		survivors []string
		explained map[string]string
		want      bool
	}{
		"none":                 {nil, nil, true},
		"explained":            {[]string{"a/x.go: f: x"}, map[string]string{"a/x.go: f: x": "why"}, true},
		"not explained":        {[]string{"a/x.go: f: x"}, nil, false},
		"killed now":           {nil, map[string]string{"a/x.go: f: x": "why"}, false},
		"of the other package": {nil, map[string]string{"b/x.go: f: x": "why"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := result{counts: map[fate]int{}, survivors: map[string]int{}, lines: map[string]int{}}
			for _, s := range test.survivors {
				r.add(mutant{name: s}, survived)
			}
			if got := r.report("a", test.explained); got != test.want {
				t.Errorf("the run succeeds: %t, want %t", got, test.want)
			}
		})
	}
}

// TestReadExplained checks that each entry needs a reason.
func TestReadExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "survivors.txt")
	for content, good := range map[string]bool{"# a comment\n\na/x.go: f: x ## why\n": true, "a/x.go: f: x\n": false, "a/x.go: f: x ## \n": false} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		explained, err := readExplained(file)
		if (err == nil) != good || good && explained["a/x.go: f: x"] != "why" {
			t.Errorf("%q: %v, %v", content, explained, err)
		}
	}
}

// TestTry checks what becomes of mutants of a small module.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":             "module sample\n\ngo 1.26\n",
		"pkg/sample.go":      "package pkg\n\nfunc half(n int) int {\n\tfor n > 9 {\n\t\tn -= 2\n\t}\n\treturn n / 2\n}\n\nfunc hello() string { return \"a\" + \"b\" }\n\nfunc free(n int) int { return n + 0 }\n",
		"pkg/sample_test.go": "package pkg\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) {\n\tif half(21) != 4 || hello() != \"ab\" || free(2) != 2 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := mutants(dir, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	l := &laboratory{root: dir, target: target{dir: "pkg"}, scratch: t.TempDir()}
	if err := l.calibrate(); err != nil {
		t.Fatal(err)
	}
	l.limit = leastLimit / 20
	want := map[string]fate{
		"pkg/sample.go: half: for n >= 9 {":                                  killed,
		"pkg/sample.go: half: for n <= 9 {":                                  killed,
		"pkg/sample.go: half: n += 2":                                        hung,
		"pkg/sample.go: half: return n * 2":                                  killed,
		"pkg/sample.go: hello: func hello() string { return \"a\" - \"b\" }": unviable,
		"pkg/sample.go: free: func free(n int) int { return n - 0 }":         survived,
	}
	if len(list) != len(want) {
		t.Errorf("%d mutants, want %d", len(list), len(want))
	}
	for _, m := range list {
		became, output, err := l.try(0, m)
		if err != nil || became != want[m.name] {
			t.Errorf("%s: %d, want %d: %v\n%s", m.name, became, want[m.name], err, output)
		}
	}
}
