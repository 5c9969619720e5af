// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnnouncesBuilds checks that make demo announces its builds before it starts them, with the time that each took last time.
func TestAnnouncesBuilds(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o700); err != nil { //nolint:gosec // Some are scripts.
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../../../hack/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("hack/demo.sh", string(script))
	write("bin/portal-sandbox", "#!/bin/sh\necho \"the demonstration: $*\"\n")
	// This make treats every existing target as up to date, and prints the targets that it is asked to build.
	write("make", "#!/bin/sh\ncase \"$*\" in *-q*) for f; do :; done; [ -e \"$f\" ] ;; *) echo \"make $*\" ;; esac\n")
	run := func() string {
		t.Helper()
		command := exec.Command(filepath.Join(root, "hack/demo.sh"), "--seed", "7")
		command.Env = append(os.Environ(), "MAKE="+filepath.Join(root, "make"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	check := func(when, out string, says ...string) {
		t.Helper()
		for _, line := range says {
			before, after, found := strings.Cut(out, line)
			if !found || strings.Contains(before, "the demonstration: ") && !strings.HasPrefix(line, "the demonstration") {
				t.Errorf("%s: %q is missing, or comes too late:\n%s%s", when, line, before, after)
			}
		}
	}
	check("the first time", run(),
		"(make kube): up to 10 minutes", "(make core): up to 6 minutes", "(make build): about 2 minutes",
		"delete a cluster: about 3 minutes", "make --no-print-directory kube\n", "make --no-print-directory build\n", "the demonstration: demo --seed 7")

	write("bin/.took", "kube 290\nkube 301\ncore 170\nbuild 42\n")
	write("bin/.demo-took.json", `{"seconds":{"Start":12.4,"Create: a cluster":30.1}}`)
	check("the second time", run(), "(make kube): took 301 s here last time", "(make core): took 170 s here last time",
		"(make build): took 42 s here last time", "delete a cluster: took 42 s here last time")

	write("bin/.kube", "")
	write("bin/.core", "")
	if out := run(); strings.Count(out, "built already") != 2 || strings.Contains(out, "make --no-print-directory kube") {
		t.Errorf("existing binaries are built again:\n%s", out)
	}
}
