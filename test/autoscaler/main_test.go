// SPDX-License-Identifier: Apache-2.0

package autoscaler

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
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	accounts = 20

	// binaryVariable is the environment variable with the path of the autoscaler. If it is not set, the tests look for the autoscaler in
	// bin/.
	binaryVariable = "CLUSTER_AUTOSCALER"

	missing = "no cluster-autoscaler: docs/development/testing.md says how to get it; put it at bin/cluster-autoscaler," +
		" or set " + binaryVariable + " to its path"
)

var (
	binary string // path of the autoscaler, or empty
	box    *sandbox.Sandbox
	used   atomic.Int32
)

// TestMain starts the sandbox that all tests share, except those that need another portal.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if binary, err = findBinary(); err != nil {
		return failed(err)
	}
	if binary == "" {
		return m.Run() // each test is skipped with the reason
	}
	// Tests mostly wait for the autoscaler, which waits until nodes have been idle for some time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		return failed(err)
	}
	if box, err = start(emulator.VictimsNewest); err != nil {
		return failed(err)
	}
	code := m.Run()
	if code != 0 {
		box.Keep()
		fmt.Fprintln(os.Stderr, "the logs of all servers and autoscalers are in", box.Dir)
	}
	if err := box.Close(); err != nil {
		return failed(err)
	}
	return code
}

// findBinary returns the path of the autoscaler, or "" if the variable is not set and bin/ has no autoscaler. A path in the variable must
// exist.
func findBinary() (string, error) {
	path := os.Getenv(binaryVariable)
	given := path != ""
	if !given {
		path = filepath.Join("..", "..", "bin", "cluster-autoscaler")
	}
	if _, err := os.Stat(path); os.IsNotExist(err) && !given {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("%s: %w", binaryVariable, err)
	}
	return filepath.Abs(path)
}

// start starts a sandbox with a portal that removes workers in the given order.
func start(order emulator.VictimOrder) (*sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr}
	options.Portal.VictimOrder = order
	options.Portal.Seed = 1
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: fmt.Sprintf("user-%d", i), Email: email(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		})
	}
	return sandbox.Start(ctx, options)
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func email(i int) string    { return fmt.Sprintf("autoscaler-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of autoscaler %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }
