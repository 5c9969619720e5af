// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	chosen := flag.String("floors", "unit,client", "the floors whose tests run, of: "+strings.Join(floors, ","))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, strings.Split(*chosen, ","), flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries the named mutants, or all, with their tests on these floors.
func run(ctx context.Context, chosen, names []string) error {
	all, err := readMutants(filepath.Join("hack", "mutants"))
	if err != nil {
		return err
	}
	var mutants []mutant
	for _, m := range all {
		m.tests = slices.DeleteFunc(m.tests, func(t test) bool { return !slices.Contains(chosen, t.floor) })
		if len(m.tests) > 0 && (len(names) == 0 || slices.Contains(names, m.name)) {
			mutants = append(mutants, m)
		}
	}
	if len(mutants) == 0 || len(names) > 0 && len(mutants) != len(names) {
		return errors.New("a mutant of this name, with a test on these floors, does not exist")
	}
	checkout, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() {
		_ = exec.CommandContext(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", checkout).Run()
		_ = os.RemoveAll(checkout)
	}()
	if err := checkOut(ctx, checkout); err != nil {
		return err
	}
	for _, m := range mutants { // before any time is spent
		if _, err := m.changed(checkout); err != nil {
			return err
		}
	}
	if err := baseline(ctx, checkout, mutants); err != nil {
		return err
	}
	return try(ctx, checkout, mutants)
}

// checkOut makes a worktree of HEAD, so that the user's own files never change. Suites on servers look for programs in its folder bin.
func checkOut(ctx context.Context, checkout string) error {
	if out, err := exec.CommandContext(ctx, "git", "worktree", "add", "--quiet", "--detach", checkout, "HEAD").CombinedOutput(); err != nil {
		return fmt.Errorf("git worktree add: %w\n%s", err, out)
	}
	programs, err := filepath.Glob(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "*"))
	err = errors.Join(err, os.Mkdir(filepath.Join(checkout, "bin"), 0o750))
	for _, program := range programs {
		if name := filepath.Base(program); name != "manager" { // each mutant builds its own
			err = errors.Join(err, os.Symlink(program, filepath.Join(checkout, "bin", name)))
		}
	}
	return err
}

// baseline runs the tests of each folder without a mutant. A test that fails anyway would show nothing.
func baseline(ctx context.Context, checkout string, mutants []mutant) error {
	var all []test
	for _, m := range mutants {
		for _, t := range m.tests {
			i := slices.IndexFunc(all, func(other test) bool {
				return other.folder == t.folder && (other.pattern == t.pattern || !strings.Contains(other.pattern+t.pattern, "/"))
			})
			if i < 0 {
				all = append(all, t)
			} else if !slices.Contains(strings.Split(all[i].pattern, "|"), t.pattern) {
				all[i].pattern += "|" + t.pattern
			}
		}
	}
	for _, t := range all {
		if failed, out := t.run(ctx, checkout); failed != "" {
			return fmt.Errorf("without a mutant, %s of %s failed:\n%s", failed, t.folder, out)
		}
	}
	return nil
}

// try makes each mutant, and prints which tests noticed. The error says how many did not.
func try(ctx context.Context, checkout string, mutants []mutant) error {
	tried, survived := 0, 0
	for _, m := range mutants {
		files, err := m.changed(checkout)
		if err != nil {
			return err
		}
		for path, text := range files {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		}
		for _, t := range m.tests {
			begin := time.Now()
			failed, out := t.run(ctx, checkout)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case strings.HasSuffix(failed, " failed]"): // it shows nothing
				survived++
				fmt.Printf("%s\n", out)
			case failed == "":
				survived++
				failed = "SURVIVED " + t.pattern
			}
			tried++
			fmt.Printf("%-40s %-8s %4.0f s  %s %s\n", m.name, t.floor, time.Since(begin).Seconds(), t.folder, failed)
		}
		restore := exec.CommandContext(ctx, "git", "checkout", "--quiet", ".")
		restore.Dir = checkout
		if err := errors.Join(err, restore.Run()); err != nil {
			return err
		}
	}
	fmt.Printf("%d mutants, %d tests of them: %d survived\n", len(mutants), tried, survived)
	if survived > 0 {
		return errors.New("a test that should notice does not: correct the test, or the mutant if it breaks nothing")
	}
	return nil
}

// run runs the test, and returns what failed: the name of a test, "" if none did, or what could not be built.
func (t test) run(ctx context.Context, checkout string) (failed string, out []byte) {
	timeout := "5m" // a mutant may make a test wait for what never happens
	if t.onServers() {
		timeout = "30m"
		if out, err := t.command(ctx, checkout, "build", "-o", "bin/manager", "."); err != nil {
			return "the manager [build failed]", out
		}
	}
	top, sub, _ := strings.Cut(t.pattern, "/")
	pattern := strings.TrimSuffix("^("+top+")$/"+sub, "/")
	// -count 1: go test does not see which files a suite's programs read, and would remember the result without the mutant.
	arguments, folder := []string{"test", "-vet=off", "-count", "1", "-failfast", "-timeout", timeout, "-run", pattern}, t.folder
	if t.floor == "world" { // a module of its own
		arguments, folder = append([]string{"-C", folder}, arguments...), "."
	}
	out, err := t.command(ctx, checkout, append(arguments, folder)...)
	if err == nil {
		return "", out
	}
	return whatFailed(string(out)), out
}

func (t test) command(ctx context.Context, checkout string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir, command.Env = checkout, os.Environ()
	if t.onServers() {
		command.Env = append(command.Env, "PORTAL_TEST_NIGHTLY=1")
	}
	return command.CombinedOutput()
}

// failures are the lines by which go test says what failed.
var failures = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^((?:panic|fatal error): .*)$|^FAIL\s+(.* failed\])$`)

// whatFailed returns the first test in the output that failed, and of its subtests the innermost.
func whatFailed(out string) (failed string) {
	for _, found := range failures.FindAllStringSubmatch(out, -1) {
		if what := strings.Join(found[1:], ""); failed == "" || strings.HasPrefix(what, failed+"/") {
			failed = what
		}
	}
	if failed == "" {
		return "a test without a name"
	}
	return failed
}
