// SPDX-License-Identifier: Apache-2.0

// Command mutation changes a package's source in small ways, one at a time, and runs the package's tests at each change: a
// mutant that no test notices has survived. It runs gremlins in a copy of the checkout, and compares the survivors with
// survivors.txt, which says for each why it may live.
//
//	mutation -root CHECKOUT -gremlins BINARY [PACKAGE...]
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is a package to mutate.
type target struct {
	dir string
	// skip are tests that need other packages' files, or take long and notice nothing that others do not.
	skip string
	// patience is how many times as long as usual the tests may take with a mutant that does not end.
	patience string
}

var targets = []target{
	{dir: "cloud", skip: "TestSilences|TestThousandCreates|TestPollsAreNotStarved|TestReadsAreNotStarved", patience: "5"},
	{dir: "controllers/claims", skip: "TestNothing", patience: "30"},
}

var (
	root     = flag.String("root", ".", "the checkout")
	gremlins = flag.String("gremlins", "bin/gremlins", "the program that makes mutants")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	wanted := flag.Args()
	if len(wanted) == 0 {
		wanted = []string{"cloud", "controllers/claims"}
	}
	explained, err := readExplained(filepath.Join(*root, "hack/mutation/survivors.txt"))
	if err != nil {
		log.Fatal(err)
	}
	failed := false
	for _, t := range targets {
		if !slices.Contains(wanted, t.dir) {
			continue
		}
		found, err := t.run()
		if err != nil {
			log.Fatalf("%s: %v", t.dir, err)
		}
		failed = found.report(t.dir, explained) || failed
	}
	if failed {
		os.Exit(1)
	}
}

// result is what gremlins found out.
type result struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Line   int    `json:"line"`
		} `json:"mutations"`
	} `json:"files"`
}

// run mutates the package in a copy of the checkout.
func (t target) run() (result, error) {
	copied, err := os.MkdirTemp("", "portal-mutation-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := t.copyTo(copied); err != nil {
		return result{}, err
	}
	report := filepath.Join(copied, "mutants.json")
	cmd := exec.Command(*gremlins, "unleash", "--invert-logical", "--workers", "1", "--timeout-coefficient", t.patience, "-o", report, "./"+t.dir)
	cmd.Dir = copied
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -count=1 -vet=off -skip="+t.skip)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return result{}, err
	}
	var found result
	content, err := os.ReadFile(report)
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(content, &found)
}

// copyTo copies what the package needs to be tested: gremlins changes the sources, and goes into folders below.
func (t target) copyTo(to string) error {
	source := os.DirFS(*root)
	for _, file := range []string{"go.mod", "go.sum"} {
		if err := copyFile(source, file, to); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(source, t.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			if err := copyFile(source, t.dir+"/"+e.Name(), to); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(source fs.FS, name, to string) error {
	content, err := fs.ReadFile(source, name)
	if err != nil {
		return err
	}
	target := filepath.Join(to, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o644)
}

// report prints the score, and returns whether a survivor is not explained.
func (r result) report(dir string, explained map[string]string) bool {
	counts := map[string]int{}
	survivors := map[string]int{}
	for _, file := range r.Files {
		for _, m := range file.Mutations {
			counts[m.Status]++
			if m.Status == "LIVED" {
				survivors[key(dir, file.Name, m.Type, m.Line)]++
			}
		}
	}
	unknown := 0
	for _, k := range slices.Sorted(maps.Keys(survivors)) {
		if explained[k] == "" {
			unknown++
			fmt.Println("survived:", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(explained)) {
		if strings.HasPrefix(k, dir+"/") && survivors[k] == 0 {
			fmt.Println("explained, and killed now:", k)
		}
	}
	killed := counts["KILLED"] + counts["TIMED OUT"]
	all := killed + counts["LIVED"]
	fmt.Printf("%s: %d of %d mutants killed (%.1f %%, %d of them by the clock), %d survivors explained, %d not; %d without a test, such as constants\n",
		dir, killed, all, 100*float64(killed)/float64(max(all, 1)), counts["TIMED OUT"], len(survivors)-unknown, unknown, counts["NOT COVERED"])
	return unknown > 0
}

// key names a mutant by its source line, which moves less than its number.
func key(dir, file, kind string, line int) string {
	file = dir + "/" + filepath.Base(file)
	content, err := os.ReadFile(filepath.Join(*root, file))
	if err != nil {
		return file
	}
	lines := strings.Split(string(content), "\n")
	return fmt.Sprintf("%s: %s: %s", file, kind, strings.TrimSpace(lines[min(line, len(lines))-1]))
}

// readExplained reads lines of a key, two number signs, and the reason why the mutant may live.
func readExplained(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	explained := map[string]string{}
	var problems []error
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, why, ok := strings.Cut(line, " ## ")
		if !ok || why == "" {
			problems = append(problems, fmt.Errorf("%s: no reason in %q", name, line))
		}
		explained[k] = why
	}
	return explained, cmp.Or(errors.Join(problems...), scanner.Err())
}
