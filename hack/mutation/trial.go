// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fate is the result of trying a mutant.
type fate int

const (
	survived fate = iota
	killed
	hung     // its tests did not end in time, which counts as killed
	unviable // it does not compile, so it is not counted
)

// memory is the memory limit of a mutant's tests, in KiB. A mutant that allocates without end must not bring down the machine.
const memory = 6 << 20

// laboratory tries the mutants of one package.
type laboratory struct {
	root     string
	target   target
	scratch  string
	sources  []*source
	excluded map[string]map[int]bool // lines by file whose mutants cannot be switched on and are built one by one
	limits   []time.Duration         // CPU time of each round of a mutant's tests
}

// prepare builds the tests with all mutants that can be switched on, and runs them with all mutants switched off.
func (l *laboratory) prepare() error {
	l.excluded = map[string]map[int]bool{}
	for {
		files := map[string]string{l.target.dir + "/mutation_runtime.go": fmt.Sprintf(runtimeSource, filepath.Base(l.target.dir))}
		for _, s := range l.sources {
			files[s.file] = s.switchable(l.excluded[s.file])
		}
		output, err := l.build("all", files)
		if err == nil {
			break
		}
		if !l.exclude(output) {
			return fmt.Errorf("the mutants do not compile:\n%s", output)
		}
	}
	for i := range l.target.rounds {
		l.limits = append(l.limits, 10*time.Minute)
		became, used, output := l.round(i, "all", 0)
		if became != survived {
			return fmt.Errorf("the tests fail without any mutant:\n%s", output)
		}
		l.limits[i] = max(patience*used, leastLimit)
	}
	return nil
}

var compilerError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// exclude records the lines that the compiler reports, and reports whether there are new ones.
func (l *laboratory) exclude(output []byte) (more bool) {
	for _, found := range compilerError.FindAllSubmatch(output, -1) {
		file := l.target.dir + "/" + strings.TrimPrefix(filepath.Base(string(found[1])), "all-")
		line, _ := strconv.Atoi(string(found[2])) // digits
		if l.excluded[file] == nil {
			l.excluded[file] = map[int]bool{}
		}
		more = more || !l.excluded[file][line]
		l.excluded[file][line] = true
	}
	return more
}

// try runs the package's tests with one mutant.
func (l *laboratory) try(worker int, s *source, m *mutant) (fate, error) {
	binary, id := "all", m.id
	if _, _, _, ok := m.site.rewritten(); !ok || m.site.constant || l.excluded[s.file][m.site.line] {
		binary, id = strconv.Itoa(worker), 0
		var failed *exec.ExitError
		if _, err := l.build(binary, map[string]string{s.file: s.with(m)}); errors.As(err, &failed) {
			return unviable, nil
		} else if err != nil {
			return unviable, err
		}
	}
	for i := range l.target.rounds {
		if became, _, _ := l.round(i, binary, id); became != survived {
			return became, nil
		}
	}
	return survived, nil
}

// round runs one round of the tests, and returns the CPU time that they used.
func (l *laboratory) round(i int, binary string, id int) (became fate, used time.Duration, output []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), busyness*l.limits[i])
	defer cancel()
	limits := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec "$0" "$@"`, memory, int(math.Ceil(l.limits[i].Seconds())))
	args := append([]string{"-c", limits, filepath.Join(l.scratch, binary), "-test.failfast", "-test.timeout=0"}, l.target.rounds[i]...)
	tests := exec.CommandContext(ctx, "sh", args...)
	tests.Dir = filepath.Join(l.root, l.target.dir)
	tests.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(id))
	output, err := tests.CombinedOutput()
	used = tests.ProcessState.UserTime() + tests.ProcessState.SystemTime()
	status, _ := tests.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		return hung, used, output
	case err != nil:
		return killed, used, output
	}
	return survived, used, output
}

// build builds the package's test binary with these files in place of those of the checkout.
func (l *laboratory) build(binary string, files map[string]string) ([]byte, error) {
	replace := map[string]string{}
	for name, content := range files {
		changed := filepath.Join(l.scratch, binary+"-"+filepath.Base(name))
		if err := os.WriteFile(changed, []byte(content), 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(l.root, name)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.scratch, binary+".json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return nil, err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-buildvcs=false", "-ldflags=-s -w", "-gcflags=-e",
		"-overlay", file, "-o", filepath.Join(l.scratch, binary), "./"+l.target.dir)
	build.Dir = l.root
	output, err := build.CombinedOutput()
	return bytes.TrimSpace(output), err
}
