// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestProgress checks that make's progress counts packages while they compile, and that a compiler error is shown and fails the build.
func TestProgress(t *testing.T) {
	run := func(script string) (out, complaints string, code int) {
		var stdout, stderr strings.Builder
		command := exec.Command("../../../hack/progress.sh", "bash", "-c", script)
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			code = exit.ExitCode()
		}
		return stdout.String(), stderr.String(), code
	}
	if out, complaints, code := run(`for i in {1..250}; do echo k8s.io/api/v$i >&2; done`); out != ".." || complaints != "" || code != 0 {
		t.Errorf("250 packages: %q, %q, exit code %d", out, complaints, code)
	}
	const complaint = "# k8s.io/api\nmain.go:1:2: undefined: x\n"
	if out, complaints, code := run(`printf "runtime\n# k8s.io/api\nmain.go:1:2: undefined: x\n" >&2; exit 3`); out != "" || complaints != complaint || code != 3 {
		t.Errorf("a build that fails: %q, %q, exit code %d", out, complaints, code)
	}
}
