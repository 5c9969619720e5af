// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const accounts = 20

var (
	box *sandbox.Sandbox
	// live is a client of the management cluster that can watch.
	live client.WithWatch
	used atomic.Int32
)

// TestMain starts the sandbox that all tests share.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr, Dir: os.Getenv("TOPOLOGY_DIR")}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: 2 * time.Second, Delete: time.Second,
	}
	options.Portal.Seed = 1
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: fmt.Sprintf("user-%d", i), Email: email(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		})
	}
	if err := flag.Set("test.parallel", "16"); err != nil { // tests spend most of their time waiting
		panic(err)
	}
	var err error
	if box, err = sandbox.Start(ctx, options); err != nil {
		return failed(err)
	}
	code := 1
	if live, err = client.NewWithWatch(box.Config, client.Options{Scheme: box.Client.Scheme()}); err == nil {
		if err = writeRepository(); err == nil {
			code = m.Run()
		}
	}
	if err != nil {
		code = failed(err)
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

func email(i int) string    { return fmt.Sprintf("topology-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of topology %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }

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
