// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// defaultGrace is how long a process may take to end after SIGTERM.
const defaultGrace = 10 * time.Second

// probeInterval is the pause between two readiness probes of a process that is starting.
const probeInterval = 50 * time.Millisecond

// Spec describes a server to run.
type Spec struct {
	// Name is used in errors, and for the log file if Log is empty.
	Name string
	// Path of the binary.
	Path string
	Args []string
	// Env is added to this process's environment, as "KEY=value".
	Env []string
	// Log is the file to which the output of the process is appended.
	Log string
	// Ready returns nil when the server can serve. It is called repeatedly until then. Nil means ready at once.
	Ready func(context.Context) error
	// Grace is the time between SIGTERM and SIGKILL, ten seconds when zero.
	Grace time.Duration
}

// Process is a running server, or one that has ended.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	exit error // set before done is closed
}

// Start runs the server and returns when it is ready. When it ends before that, or when the context does, nothing is
// left running and the error holds the end of its log.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if spec.Grace == 0 {
		spec.Grace = defaultGrace
	}
	log, err := openLog(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	defer log.Close() //nolint:errcheck // The child holds its own copy.

	cmd := exec.Command(spec.Path, spec.Args...) // Without a context, which could only kill it: Stop ends it.
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	go p.reap()
	if err := p.awaitReady(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s did not get ready: %w%s", spec.Name, err, tail(spec.Log))
	}
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name is the name given to Start.
func (p *Process) Name() string { return p.spec.Name }

// Log is the path of its log file.
func (p *Process) Log() string { return p.spec.Log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process runs. A nil process does not.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns how the process ended. It is nil while the process runs and after exit code 0.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.exit
}

// Stop asks the process to end, kills it when its grace is over, and returns when it has ended. On a nil or ended
// process it does nothing.
func (p *Process) Stop() {
	if !p.Running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // Fails only if it has just ended.
	select {
	case <-p.done:
	case <-time.After(p.spec.Grace):
		p.Kill()
	}
}

// Kill ends the process at once, as a crash would, and returns when it has ended.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // Fails only if it has already ended.
	<-p.done
}

func (p *Process) reap() {
	p.exit = p.cmd.Wait()
	close(p.done)
}

// errEnded is reported when a process ends before it was ready.
var errEnded = errors.New("it ended")

func (p *Process) awaitReady(ctx context.Context) error {
	if p.spec.Ready == nil {
		return nil
	}
	for {
		probe := p.spec.Ready(ctx)
		if probe == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last probe: %w", context.Cause(ctx), probe)
		case <-p.done:
			return fmt.Errorf("%w: %v", errEnded, p.exit)
		case <-time.After(probeInterval):
		}
	}
}

func openLog(path string) (*os.File, error) {
	if path == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// tail returns the last lines of a log, as the end of an error message.
func tail(path string) string {
	const lines = 8
	content, err := os.ReadFile(path)
	if err != nil || len(content) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("; %s ends with:\n  %s", path, strings.Join(all, "\n  "))
}
