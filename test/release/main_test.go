// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	root           = "../.."
	releaseVersion = "v0.1.0" // the version in clusterctl-settings.json
	image          = "registry.example/of-the-test/manager:" + releaseVersion
)

var (
	box    *sandbox.Sandbox // management cluster without our manager
	dir    string           // the repository that make has written
	config string           // configuration of clusterctl, which names the repository
)

// TestMain writes a release and starts a management cluster for it.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	scratch, err := os.MkdirTemp("", "portal-release-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := write(ctx, scratch); err != nil {
		return 1, err
	}
	if box, err = sandbox.Start(ctx, sandbox.Options{WithoutManager: true, WithoutPortal: true}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	return m.Run(), nil
}

// write writes a release, and a configuration of clusterctl that names it.
func write(ctx context.Context, scratch string) error {
	if err := touch(); err != nil {
		return err
	}
	dir = filepath.Join(scratch, "infrastructure-portal", releaseVersion)
	config = filepath.Join(scratch, "clusterctl.yaml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "make", "-C", root, "-s", "release-manifests", "RELEASE="+dir, "IMG="+image)
	command.Env = environment()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make release-manifests: %w\n%s", err, out)
	}
	return os.WriteFile(config, fmt.Appendf(nil, `providers:
  - {name: portal, type: InfrastructureProvider, url: %q}
`, filepath.Join(dir, "infrastructure-components.yaml")), 0o600)
}

// environment returns the test's environment without the variables of a make that runs the test.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS")
	})
}

// touch reads every file from which a release is made. go test caches results by the files that the test reads, not by those that make
// reads, and would otherwise report a stale result.
func touch() error {
	for _, place := range []string{
		"Makefile", "metadata.yaml", "config", "templates", "bin/clusterctl", "bin/manager",
		"Dockerfile", ".dockerignore", "go.mod", "hack/licenses",
	} {
		if err := filepath.WalkDir(filepath.Join(root, place), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
