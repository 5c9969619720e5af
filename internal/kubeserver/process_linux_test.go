// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestNothingOutlivesACrash checks that a child ends when its parent is killed. The parent is a process of its own.
func TestNothingOutlivesACrash(t *testing.T) {
	parent := exec.Command(os.Args[0], "-test.run=^TestParent$", "-test.v")
	parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "child %d", &child)
	}
	if child == 0 || !alive(child) {
		t.Fatalf("the parent has no child (%d)", child)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for deadline := time.Now().Add(5 * time.Second); alive(child); {
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatalf("process %d outlived its parent", child)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestParent is the parent process of TestNothingOutlivesACrash.
func TestParent(t *testing.T) {
	dir := os.Getenv("PROCESS_TEST_PARENT")
	if dir == "" {
		t.Skip("runs within TestNothingOutlivesACrash")
	}
	p := start(t, dir, `touch "$0/ready"; while :; do sleep 0.01; done`)
	fmt.Printf("child %d\n", p.PID())
	<-p.Done()
}

// TestChildrenSurviveThreads checks that a child survives the thread that started it.
func TestChildrenSurviveThreads(t *testing.T) {
	dir := t.TempDir()
	started := make(chan *Process)
	go onDyingThread(func() {
		p, err := Start(t.Context(), script(dir, `touch "$0/ready"; while :; do sleep 0.01; done`))
		if err != nil {
			t.Error(err)
		}
		started <- p
	})
	p := <-started
	defer p.Kill()
	select {
	case <-p.Done():
		t.Fatalf("the child died with the thread that started it: %v", p.Err())
	case <-time.After(300 * time.Millisecond):
	}
}

// onDyingThread runs f on a thread that ends with f: a goroutine that returns while it is locked to its thread ends the thread. The
// process's first thread is the exception, because Go keeps it.
func onDyingThread(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	var other sync.WaitGroup
	other.Go(func() { onDyingThread(f) })
	other.Wait()
}
