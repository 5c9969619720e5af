// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(20, "topology")
	// live is a client of the management cluster that can watch.
	live client.WithWatch
)

// TestMain starts the sandbox that all tests share.
func TestMain(m *testing.M) {
	options := sandbox.Options{Dir: os.Getenv("TOPOLOGY_DIR")}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: 2 * time.Second, Delete: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: suite.PortalClusters, Setup: setUp}))
}

func setUp(context.Context) (err error) {
	if live, err = suite.WatchClient(box); err != nil {
		return err
	}
	return writeRepository()
}

// release is the version of the templates in the repository. It can be any version that metadata.yaml has.
const release = "v0.1.0"

// writeRepository writes the templates into a local repository with the files of a release, in which clusterctl finds them.
func writeRepository() error {
	dir := filepath.Join(box.Dir, "repository", "infrastructure-portal", release)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	files, err := filepath.Glob(box.File("templates", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range append(files, box.File("metadata.yaml")) {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o600); err != nil {
			return err
		}
	}
	components := filepath.Join(dir, "infrastructure-components.yaml") // clusterctl only checks that this file exists
	if err := os.WriteFile(components, nil, 0o600); err != nil {
		return err
	}
	config := fmt.Sprintf("providers:\n- name: portal\n  type: InfrastructureProvider\n  url: %s\n", components)
	return os.WriteFile(clusterctlConfig(), []byte(config), 0o600)
}

func clusterctlConfig() string { return filepath.Join(box.Dir, "clusterctl.yaml") }
