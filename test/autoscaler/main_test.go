// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	// binaryVariable is the environment variable with the path of the autoscaler. If it is not set, the tests look for the autoscaler in
	// bin/.
	binaryVariable = "CLUSTER_AUTOSCALER"

	missing = "no cluster-autoscaler: docs/development/testing.md says how to get it; put it at bin/cluster-autoscaler," +
		" or set " + binaryVariable + " to its path"
)

var (
	binary string // path of the autoscaler, or empty
	box    *sandbox.Sandbox

	accounts = suite.NewAccounts(20, "autoscaler")
)

// TestMain starts the sandbox that all tests share, except those that need another portal.
func TestMain(m *testing.M) {
	var err error
	if binary, err = findBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if binary == "" {
		os.Exit(m.Run()) // each test is skipped with the reason
	}
	// The autoscaler waits until nodes have been idle for some time.
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options(emulator.VictimsNewest), Parallel: 16}))
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

// options returns the options of a sandbox whose portal removes workers in the given order.
func options(order emulator.VictimOrder) (o sandbox.Options) {
	o.Portal.VictimOrder = order
	o.Portal.Users = accounts.Users()
	o.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	return o
}
