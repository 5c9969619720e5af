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

// defaultGrace is the default of Spec.Grace.
const defaultGrace = 10 * time.Second

// probeInterval is the pause between two readiness probes of a starting process.
const probeInterval = 50 * time.Millisecond

// Spec describes a server to run.
type Spec struct {
	// Name is used in errors, and for the log file if Log is empty.
	Name string
	// Path is the path of the binary.
	Path string
	Args []string
	// Env is added to this process's environment, as "KEY=value".
	Env []string
	// Log is the file to which the output of the process is appended.
	Log string
	// Ready returns nil when the server can serve. Start calls it repeatedly until then. If Ready is nil, the server is ready at once.
	Ready func(context.Context) error
	// Grace is the time between SIGTERM and SIGKILL. The default is ten seconds.
	Grace time.Duration
}

// Process is a running server, or one that has ended.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	exit error // set before done is closed
}

// Start runs the server and returns when it is ready. If the process or the context ends first, Start leaves nothing running and returns an
// error with the end of the log.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if spec.Grace == 0 {
		spec.Grace = defaultGrace
	}
	log, err := openLog(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Name, err)
	}
	defer log.Close() //nolint:errcheck // The child holds its own copy.

	cmd := exec.Command(spec.Path, spec.Args...) //nolint:noctx // A context could only kill the process. Stop ends it gracefully.
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name returns the name given to Start.
func (p *Process) Name() string { return p.spec.Name }

// Log returns the path of the log file.
func (p *Process) Log() string { return p.spec.Log }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process is running. It is false for a nil Process.
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

// Err returns how the process ended. It returns nil while the process runs and after exit code 0.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.exit
}

// Stop sends SIGTERM, kills the process after its grace, and returns when the process has ended. It does nothing for a nil or ended
// Process.
func (p *Process) Stop() {
	if !p.Running() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // Fails only if the process has just ended.
	select {
	case <-p.done:
	case <-time.After(p.spec.Grace):
		p.Kill()
	}
}

// Kill ends the process at once, as a crash would, and returns when the process has ended.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // Fails only if the process has already ended.
	<-p.done
}

func (p *Process) reap() {
	p.exit = p.cmd.Wait()
	close(p.done)
}

// errEnded is returned when a process ends before it is ready.
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

// tail returns the last lines of a log for use at the end of an error message.
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
