// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestFind checks that find returns all operators, including those in constants and in the conditions of cases.
func TestFind(t *testing.T) {
	s := &source{file: "pkg/sample.go", content: sample}
	id := 0
	if err := s.find(&id); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, at := range s.sites {
		for _, m := range at.mutants {
			got = append(got, m.name)
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
	if strings.Join(got, "\n") != strings.Join(want, "\n") || id != len(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReport checks that the run fails for a survivor without an explanation and for an explanation without a survivor.
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
		"of a package below":   {nil, map[string]string{"a/b/x.go: f: x": "why"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := result{counts: map[fate]int{}, survivors: map[string]int{}, lines: map[string]int{}}
			for _, s := range test.survivors {
				r.add(&mutant{name: s, site: &site{}}, survived)
			}
			if got := r.report("a", test.explained); got != test.want {
				t.Errorf("the run succeeds: %t, want %t", got, test.want)
			}
		})
	}
}

// TestReadExplained checks that readExplained rejects an entry without a reason.
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

const tried = `package pkg

import "time"

const twice = 2 * 1

func half(n int) int {
	for n > 9 &&
		n != 100 {
		n -= 2
	}
	return n / twice
}

func hello(long bool) string {
	if !long || 3*time.Second < time.Minute-time.Hour {
		return "a" + "b"
	}
	return "c"
}

func free(n int) (m int64) {
	m++
	return int64(n+0) + m
}
`

const tests = `package pkg

import "testing"

func TestHalf(t *testing.T) {
	if half(21) != 4 || half(100) != 50 || half(3) != 1 || hello(false) != "ab" || hello(true) != "c" || free(2) != 3 {
		t.Fail()
	}
}
`

// TestTry checks the fates of the mutants of a small module, both switched and built one by one.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "pkg/sample.go": tried, "pkg/sample_test.go": tests} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := sources(dir, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	l := &laboratory{root: dir, target: target{dir: "pkg", rounds: [][]string{{"-test.run=None"}, nil}}, scratch: t.TempDir(), sources: all}
	if err := l.prepare(); err != nil {
		t.Fatal(err)
	}
	want := map[string]fate{
		"const twice = 2 / 1": survived,
		"for n <= 9 &&":       killed,
		"for n > 9 ||":        hung,
		"for n >= 9 &&":       killed,
		"if !long && 3*time.Second < time.Minute-time.Hour {":  killed,
		"if !long || 3*time.Second < time.Minute+time.Hour {":  killed,
		"if !long || 3*time.Second <= time.Minute-time.Hour {": survived,
		"if !long || 3*time.Second >= time.Minute-time.Hour {": killed,
		"if !long || 3/time.Second < time.Minute-time.Hour {":  survived,
		"if long || 3*time.Second < time.Minute-time.Hour {":   killed,
		"m--":                   killed,
		"n += 2":                hung,
		"n == 100 {":            killed,
		`return "a" - "b"`:      unviable,
		"return int64(n+0) - m": killed,
		"return int64(n-0) + m": survived,
		"return n * twice":      killed,
	}
	got := map[string]fate{}
	for _, at := range all[0].sites {
		for _, m := range at.mutants {
			name := strings.SplitN(m.name, ": ", 3)[2]
			l.limits[1] = time.Minute
			if want[name] == hung {
				l.limits[1] = time.Second
			}
			became, err := l.try(0, all[0], m)
			if err != nil {
				t.Fatal(err)
			}
			got[name] = became
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
