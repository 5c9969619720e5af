// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// fate is what became of a mutant.
type fate int

const (
	survived fate = iota
	killed
	hung     // its tests did not end in time, which counts as killed
	unviable // it does not compile, and counts for nothing
)

// memory is what the tests of a mutant may use, in KiB: one that allocates without end must not take the machine along.
const memory = 6 << 20

// laboratory tries mutants of one package.
type laboratory struct {
	root    string
	target  target
	scratch string
	limit   time.Duration // of a mutant's tests
}

// calibrate runs the tests of the unchanged package, which have to pass, and sets the limit by the time that they take.
func (l *laboratory) calibrate() error {
	l.limit = 10 * time.Minute
	began := time.Now()
	became, output, err := l.try(0, mutant{})
	if err != nil {
		return err
	}
	if became != survived {
		return fmt.Errorf("the tests fail without any change:\n%s", output)
	}
	l.limit = max(patience*time.Since(began), leastLimit)
	return nil
}

// try builds the package's tests with a mutant in the place of its file, and runs them.
func (l *laboratory) try(worker int, m mutant) (fate, []byte, error) {
	scratch := filepath.Join(l.scratch, fmt.Sprint(worker))
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return 0, nil, err
	}
	overlay, binary := filepath.Join(scratch, "overlay.json"), filepath.Join(scratch, "tests")
	if err := l.writeOverlay(overlay, filepath.Join(scratch, "mutant.go"), m); err != nil {
		return 0, nil, err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./"+l.target.dir)
	build.Dir = l.root
	if output, err := build.CombinedOutput(); err != nil {
		return unviable, output, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	defer cancel()
	args := append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), binary, "-test.failfast", "-test.timeout=0"}, l.target.args...)
	tests := exec.CommandContext(ctx, "sh", args...)
	tests.Dir = filepath.Join(l.root, l.target.dir)
	output, err := tests.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return hung, output, nil
	case errors.As(err, &failed):
		return killed, output, nil
	}
	return survived, output, err
}

// writeOverlay says to the go command which file to read instead of another.
func (l *laboratory) writeOverlay(overlay, changed string, m mutant) error {
	replace := map[string]string{}
	if m.file != "" {
		replace[filepath.Join(l.root, m.file)] = changed
		if err := os.WriteFile(changed, m.content, 0o644); err != nil {
			return err
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(overlay, content, 0o644)
}
