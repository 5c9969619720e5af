// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStopAsksFirst(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, `trap 'echo ended >"$0/ended"; exit 0' TERM; touch "$0/ready"; while :; do sleep 0.01; done`)
	if group, err := syscall.Getpgid(p.PID()); err != nil || group == syscall.Getpgrp() {
		t.Errorf("process group %d (%v): Ctrl-C in a terminal would reach the child", group, err)
	}
	p.Stop()
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Errorf("the process did not see SIGTERM: %v", err)
	}
	if p.Running() || p.Err() != nil {
		t.Errorf("running %v, exit %v; want ended with 0", p.Running(), p.Err())
	}
	p.Stop() // Must do nothing for an ended process.
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, `trap '' TERM; touch "$0/ready"; while :; do sleep 0.01; done`)
	p.spec.Grace = 50 * time.Millisecond
	p.Stop()
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("exit %v, want killed", p.Err())
	}
}

func TestStartReportsTheLogOfWhatEnds(t *testing.T) {
	_, err := Start(t.Context(), script(t.TempDir(), `echo "no such flag"; exit 3`))
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("error %v, want errEnded with the end of the log", err)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pid int
	spec := script(dir, `echo $$ >"$0/new"; mv "$0/new" "$0/pid"; while :; do sleep 0.01; done`)
	spec.Ready = func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
			cancel()
		}
		return errors.Join(err, errors.New("never ready"))
	}
	if _, err := Start(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	if alive(pid) {
		t.Errorf("process %d still exists", pid)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := FreePort("127.0.0.1")
		if err != nil || seen[port] || port < firstPort || port >= lastPort {
			t.Fatalf("port %d, error %v, returned before: %v", port, err, seen[port])
		}
		seen[port] = true
	}
}

// TestEndReleasesPorts checks that the ports of a plane are those of another one after its end, also if it was rotated, and that a server which
// starts again takes no further port.
func TestEndReleasesPorts(t *testing.T) {
	reserved := func() int {
		reservations.Lock()
		defer reservations.Unlock()
		return len(reservations.files)
	}
	before := reserved()
	p, err := New(Options{Name: "c", Dir: t.TempDir(), Reusable: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := p.serverPort("kube-scheduler"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Rotate(false, true, false); err != nil {
		t.Fatal(err)
	}
	if taken := reserved() - before; taken != 4 { // of the API server, of users before and after the rotation, and of the scheduler
		t.Errorf("the plane has reserved %d ports, want 4", taken)
	}
	_, port := p.listens()
	p.End()
	if left := reserved() - before; left != 0 {
		t.Errorf("%d ports are still reserved", left)
	}
	if again, err := reserve(port); err != nil || !again {
		t.Errorf("port %d cannot be reserved: %v", port, err)
	}
	ReleasePort(port)
}

// script returns a Spec that runs a shell script. The directory is $0, and the server is ready when the file "ready" exists.
func script(dir, text string) Spec {
	return Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", text, dir}, Log: filepath.Join(dir, "log"),
		Ready: func(context.Context) error { _, err := os.Stat(filepath.Join(dir, "ready")); return err },
	}
}

func start(t *testing.T, dir, text string) *Process {
	t.Helper()
	p, err := Start(t.Context(), script(dir, text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
