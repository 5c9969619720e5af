// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
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
	scratch := ""
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox: sandbox.Options{WithoutManager: true, WithoutPortal: true},
		Setup: func(ctx context.Context) (err error) {
			if scratch, err = os.MkdirTemp("", "portal-release-"); err != nil {
				return err
			}
			return write(ctx, scratch)
		},
		Teardown: func(bool) error { return os.RemoveAll(scratch) },
	}))
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
