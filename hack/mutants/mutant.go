// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant breaks one promise, by one to five lines of the code that ships.
type mutant struct {
	name, promise string
	tests         []test
	edits         []edit
}

// test is a test that should notice.
type test struct{ floor, folder, pattern string }

// edit replaces a text that the file has exactly once.
type edit struct{ file, before, after string }

// floors on which tests run, the fastest first.
var floors = []string{"unit", "client", "world", "contract", "witness"}

func (t test) onServers() bool { return t.floor == "contract" || t.floor == "witness" }

// readMutants reads the files *.txt of the folder (doc.go has their form).
func readMutants(folder string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, entry := range strings.Split(string(raw), "\n== ")[1:] {
			m, err := parse(entry)
			if err != nil {
				return nil, fmt.Errorf("%s: mutant %s: %w", file, m.name, err)
			}
			if slices.ContainsFunc(all, func(other mutant) bool { return other.name == m.name }) {
				return nil, fmt.Errorf("%s: two mutants are named %s", file, m.name)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func parse(entry string) (m mutant, err error) {
	head, edits, _ := strings.Cut(entry, "\n@ ")
	lines := strings.Split(head, "\n")
	if m.name = lines[0]; len(lines) < 3 || edits == "" {
		return m, fmt.Errorf("it needs a promise, a test and a change")
	}
	m.promise = lines[1]
	for _, line := range lines[2:] {
		fields := strings.Fields(line)
		if len(fields) != 3 || !slices.Contains(floors, fields[0]) {
			return m, fmt.Errorf("%q is no floor, folder and pattern of tests", line)
		}
		m.tests = append(m.tests, test{fields[0], fields[1], fields[2]})
	}
	for change := range strings.SplitSeq(edits, "\n@ ") {
		lines := strings.Split(strings.TrimRight(change, "\n"), "\n")
		var before, after []string
		for _, line := range lines[1:] {
			switch kind, text := line[:1], line[1:]; kind {
			case "-":
				before = append(before, text)
			case "+":
				after = append(after, text)
			default:
				return m, fmt.Errorf("%q begins with neither - nor +", line)
			}
		}
		m.edits = append(m.edits, edit{lines[0], strings.Join(before, "\n"), strings.Join(after, "\n")})
	}
	return m, nil
}

// changed returns the files of the checkout as the mutant changes them, by path.
func (m mutant) changed(checkout string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(checkout, e.file)
		text, found := files[path]
		if !found {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.before); n != 1 {
			return nil, fmt.Errorf("mutant %s: %s has this text %d times, not once:\n%s", m.name, e.file, n, e.before)
		}
		files[path] = strings.Replace(text, e.before, e.after, 1)
	}
	return files, nil
}
