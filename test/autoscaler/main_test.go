// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// binaryVariable is the environment variable with the path of the autoscaler. If it is not set, the tests use the one in bin/.
const binaryVariable = "CLUSTER_AUTOSCALER"

var (
	binary string // path of the autoscaler
	box    *sandbox.Sandbox

	accounts = suite.NewAccounts(20, "autoscaler")
)

// TestMain starts the sandbox that all tests share.
func TestMain(m *testing.M) {
	given := os.Getenv(binaryVariable)
	binary = cmp.Or(given, filepath.Join("..", "..", "bin", "cluster-autoscaler"))
	if _, err := os.Stat(binary); err != nil {
		fmt.Println("skipped: no cluster-autoscaler: docs/development/testing.md says how to get it:", err)
		if given != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	var options sandbox.Options
	options.Portal.VictimOrder = emulator.VictimsNewest
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	// The autoscaler waits until nodes have been idle for some time.
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: 16}))
}
