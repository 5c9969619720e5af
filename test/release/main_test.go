// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	root           = "../.."
	releaseVersion = "v0.1.0" // the version in clusterctl-settings.json
	image          = "registry.example/of-the-test/manager:" + releaseVersion
)

var (
	box         *sandbox.Sandbox // an API server in which clusterctl has installed the release, and core's manager
	dir         string           // the repository that make has written: all files at night, otherwise only manifests and templates
	config      string           // configuration of clusterctl, which names the repository
	coreVersion string           // the version of Cluster API that go.mod requires
)

// TestMain writes a release, and has clusterctl install it in an empty management cluster.
func TestMain(m *testing.M) {
	scratch := ""
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox:      sandbox.Options{Empty: true},
		StartTimeout: 30 * time.Minute, // make release compiles its tools first
		Setup: func(ctx context.Context) (err error) {
			if scratch, err = os.MkdirTemp("", "portal-release-"); err != nil {
				return err
			}
			if err := write(ctx, scratch); err != nil {
				return err
			}
			return install(ctx, scratch)
		},
		Teardown: func(bool) error { return os.RemoveAll(scratch) },
	}))
}

// write writes a release for this platform, and a configuration of clusterctl that names it.
func write(ctx context.Context, scratch string) error {
	if err := touch(); err != nil {
		return err
	}
	dir = filepath.Join(scratch, "infrastructure-portal", releaseVersion)
	target, platform := "release-manifests", "linux/"+runtime.GOARCH
	if suite.AtNight() {
		target = "release"
	}
	command := exec.CommandContext(ctx, "make", "-C", root, "-s", target, "RELEASE="+dir, "VERSION="+releaseVersion, "IMG="+image,
		"PLATFORMS="+platform, "PROGRAM_PLATFORMS="+platform)
	command.Env = environment()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", target, err, out)
	}
	core, err := writeCore(ctx, scratch)
	if err != nil {
		return err
	}
	config = filepath.Join(scratch, "clusterctl.yaml")
	return os.WriteFile(config, fmt.Appendf(nil, `providers:
  - {name: portal, type: InfrastructureProvider, url: %q}
  - {name: cluster-api, type: CoreProvider, url: %q}
cert-manager: {externallyProvisioned: "true"}
`, filepath.Join(dir, "infrastructure-components.yaml"), core), 0o600)
}

// writeCore writes the repository of Cluster API's core, and returns the path of its components.
func writeCore(ctx context.Context, scratch string) (string, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return "", err
	}
	version, folder, _ := strings.Cut(strings.TrimSpace(string(module)), " ")
	coreVersion = version
	repository := filepath.Join(scratch, "cluster-api", version)
	if err := os.MkdirAll(repository, 0o750); err != nil {
		return "", err
	}
	components := filepath.Join(repository, "core-components.yaml")
	for from, to := range map[string]string{
		filepath.Join(folder, "metadata.yaml"):                          filepath.Join(repository, "metadata.yaml"),
		filepath.Join(root, "bin", "capi-core", "core-components.yaml"): components,
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			return "", err
		}
	}
	return components, nil
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
		"Makefile", "metadata.yaml", "config", "templates", "bin/clusterctl", "bin/manager", "bin/portal-sandbox",
		"Dockerfile", ".dockerignore", "go.mod", "hack/licenses", "hack/release", "hack/bundle.sh", "hack/notes.sh",
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
