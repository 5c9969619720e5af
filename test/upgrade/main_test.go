// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
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
	if _, err := os.Stat(filepath.Join(previous, "bin", "manager-built")); err != nil {
		fmt.Println("skipped: the previous release is not built. Run make test-upgrade.")
		os.Exit(0)
	}
	if err := wrapManager(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := sandbox.Options{Root: previous, Dir: os.Getenv("UPGRADE_DIR")}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second, Network: time.Second,
	}
	for _, p := range phases() {
		options.Portal.Users = append(options.Portal.Users, p.user())
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: 16, StartTimeout: 10 * time.Minute}))
}

// wrapManager makes the sandbox start the previous manager with the flag that it needs.
func wrapManager() error {
	built, err := filepath.Abs(filepath.Join(previous, "bin", "manager-built"))
	if err != nil {
		return err
	}
	help, _ := exec.Command(built, "--help").CombinedOutput() // some releases return an error after printing their flags
	needed := ""
	if strings.Contains(string(help), "--allow-unverified-core") { // the sandbox's core is no Deployment, so its version is unknown
		needed = "--allow-unverified-core"
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" %s\n", built, needed)
	return os.WriteFile(filepath.Join(previous, "bin", "manager"), []byte(script), 0o755)
}
