// SPDX-License-Identifier: Apache-2.0

// Command patch copies upstream's module from the module cache to a directory, applies the edits of package patches to the copy, and writes
// a go.mod in the directory that uses the copy. Run it in the folder of this module's go.mod.
//
//	go run ./patch DIRECTORY
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/capportal/cluster-api-provider-portal/test/upstream/patches"
)

const module = "sigs.k8s.io/cluster-api/test"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: patch DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "patch:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	source, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("go mod download %s: %w", module, err)
	}
	// Only one value is needed, and it is on a line of its own.
	_, rest, found := strings.Cut(string(source), `"Dir": "`)
	from, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		return fmt.Errorf("go mod download %s names no directory", module)
	}
	to := filepath.Join(dir, "module")
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o750)); err != nil {
		return err
	}
	for _, folder := range []string{"e2e", "framework", "infrastructure"} {
		if err := copyGo(filepath.Join(from, folder), filepath.Join(to, folder)); err != nil {
			return err
		}
	}
	if err := edit(to); err != nil {
		return err
	}
	return writeModules(from, to, dir)
}

// copyGo copies a folder. The files in the module cache are read-only, but the copies are not.
func copyGo(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o750)
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
}

func edit(dir string) error {
	for _, patch := range patches.All {
		path := filepath.Join(dir, filepath.FromSlash(patch.File))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		edited, err := patch.Apply(string(text))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
			return err
		}
		fmt.Printf("%-40s %d edits\n", patch.File, len(patch.Edits))
	}
	return nil
}

// writeModules writes go.mod and go.sum for go test -modfile, and the copy's own go.mod.
func writeModules(from, to, dir string) error {
	for source, target := range map[string]string{
		filepath.Join(from, "go.mod"): filepath.Join(to, "go.mod"),
		"go.mod":                      filepath.Join(dir, "go.mod"),
		"go.sum":                      filepath.Join(dir, "go.sum"),
	} {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if target == filepath.Join(dir, "go.mod") {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", module, to)
		}
		if err := os.WriteFile(target, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
