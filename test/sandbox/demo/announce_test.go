// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAnnouncesBuilds checks that make demo announces its builds before it starts them, with the time that each took last time.
func TestAnnouncesBuilds(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o700)); err != nil {
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
	says := func(inOrder ...string) string {
		t.Helper()
		command := exec.Command(filepath.Join(root, "hack/demo.sh"), "--seed", "7")
		command.Env = append(os.Environ(), "MAKE="+filepath.Join(root, "make"))
		out, err := command.CombinedOutput()
		rest := string(out)
		for _, line := range inOrder {
			_, after, found := strings.Cut(rest, line)
			if !found || err != nil {
				t.Fatalf("%v: %q is missing, or comes too early:\n%s", err, line, out)
			}
			rest = after
		}
		return string(out)
	}
	says("(make kube): 5 to 15 minutes", "(make build): up to 2 minutes", "delete a cluster: about 3 minutes", "up to 5 GB of disk",
		"make --no-print-directory kube\n", "make --no-print-directory build\n", "the demonstration: demo --seed 7")
	write("bin/.took", "kube 290\nkube 301\nbuild 42\n")
	write("bin/.demo-took.json", `{"seconds":{"Start":12.4,"Create: a cluster":30.1}}`)
	says("(make kube): took 301 s here last time", "(make build): took 42 s here last time", "delete a cluster: took 42 s here last time")
	write("bin/.kube", "")
	if out := says("(make kube): built already", "make --no-print-directory build\n"); strings.Contains(out, "make --no-print-directory kube") {
		t.Errorf("existing binaries are built again:\n%s", out)
	}
}

// compiling is a run of make demo whose first build ends when the file done exists.
type compiling struct {
	*exec.Cmd
	root, player string // player is the address of the recording
	out          *bufio.Reader
}

// startCompiling starts a run in a checkout where nothing is built, up to the line with the address of the recording.
func startCompiling(t *testing.T) *compiling {
	t.Helper()
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	c := &compiling{root: t.TempDir()}
	for _, name := range []string{"go.mod", "go.sum", "cmd", "cloud", "hack/demo.sh"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(c.root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(repository, name), filepath.Join(c.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	const script = `#!/bin/sh
case "$*" in
*-q*) [ -e done ] ;;
*kube) while [ ! -e done ]; do sleep 0.02; done ;;
*build) printf '#!/bin/sh\necho the demonstration; while [ ! -e seen ]; do sleep 0.02; done' >bin/portal-sandbox; chmod +x bin/portal-sandbox ;;
esac`
	if err := os.WriteFile(filepath.Join(c.root, "make"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Cmd = exec.Command(filepath.Join(c.root, "hack/demo.sh"))
	c.Env = append(os.Environ(), "MAKE="+filepath.Join(c.root, "make"), "PREBUILT=")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches all processes of a terminal
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.player = c.says(t, "While this is fetched or compiled (up to 10 minutes, once), watch a recorded run: ")
	return c
}

// says returns the rest of the first line that begins with a text.
func (c *compiling) says(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if rest, found := strings.CutPrefix(line, text); found {
			return strings.TrimSpace(rest)
		}
		if err != nil {
			t.Fatalf("make demo never said %q: %v", text, err)
		}
	}
}

// plays reports whether the recording is served.
func (c *compiling) plays() bool {
	response, err := http.Get(c.player)
	if err != nil {
		return false
	}
	page, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return strings.Contains(string(page), `name="recording"`)
}

// expectEnd waits until the player has ended.
func (c *compiling) expectEnd(t *testing.T, when string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); c.plays(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s, the recording is still served", when)
		}
	}
}

// TestPlaysWhileItCompiles checks that a recording can be watched from before the first long build until the demonstration begins, and that
// Ctrl-C ends the player as well.
func TestPlaysWhileItCompiles(t *testing.T) {
	touch := func(c *compiling, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := startCompiling(t)
	if !c.plays() {
		t.Errorf("%s does not play a recording", c.player)
	}
	touch(c, "done")
	c.says(t, "the demonstration")
	c.expectEnd(t, "when the demonstration has begun")
	touch(c, "seen")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	again := exec.Command(c.Path)
	again.Env = c.Env
	if out, err := again.CombinedOutput(); err != nil || strings.Contains(string(out), "recorded run") {
		t.Errorf("a run that compiles nothing for long: %v\n%s", err, out)
	}

	c = startCompiling(t)
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	goesOn := time.AfterFunc(2*time.Minute, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	if _ = c.Wait(); c.ProcessState.ExitCode() != 130 || !goesOn.Stop() {
		t.Error("make demo goes on after Ctrl-C")
	}
	c.expectEnd(t, "after Ctrl-C")
}
