// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	root = "../.."
	// previous is the folder of the previous release that make previous builds.
	previous = root + "/bin/previous"
)

var (
	record = flag.String("record", "", "`directory` that receives what the previous release has stored, as samples")

	box *sandbox.Sandbox
)

// TestMain starts a sandbox of the previous release.
func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	if _, err := os.Stat(filepath.Join(previous, "bin", "manager-built")); err != nil {
		fmt.Println("skipped: the previous release is not built. Run make test-upgrade.")
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := wrapManager(ctx); err != nil {
		return failed(err)
	}
	options := sandbox.Options{Root: previous, Out: os.Stderr, Dir: os.Getenv("UPGRADE_DIR")}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second, Network: time.Second,
	}
	options.Portal.Seed = 1
	for _, p := range phases() {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: p.name, Email: p.email(), Password: p.password(), Account: p.name, Role: emulator.RoleAdministrator,
		})
	}
	if err := flag.Set("test.parallel", "16"); err != nil { // lives mostly wait
		return failed(err)
	}
	var err error
	if box, err = sandbox.Start(ctx, options); err != nil {
		return failed(err)
	}
	code := m.Run()
	if code != 0 {
		box.Keep()
		fmt.Fprintln(os.Stderr, "logs are in "+box.Dir)
	}
	if err := box.Close(); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// wrapManager makes the sandbox start the previous manager without the flags that it does not have.
func wrapManager(ctx context.Context) error {
	built, err := filepath.Abs(filepath.Join(previous, "bin", "manager-built"))
	if err != nil {
		return err
	}
	var usage bytes.Buffer
	help := exec.CommandContext(ctx, built, "--help")
	help.Stdout, help.Stderr = &usage, &usage
	_ = help.Run() // some releases return an error after printing their flags
	unknown := ""
	for _, name := range []string{"--portal-host"} {
		if !strings.Contains(usage.String(), name) {
			unknown += name + "=*) ;; "
		}
	}
	script := fmt.Sprintf("#!/bin/sh\nfor flag; do shift; case $flag in %s*) set -- \"$@\" \"$flag\" ;; esac; done\nexec '%s' \"$@\"\n", unknown, built)
	return os.WriteFile(filepath.Join(previous, "bin", "manager"), []byte(script), 0o755) //nolint:gosec // It is a program.
}
