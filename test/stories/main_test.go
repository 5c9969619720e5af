// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"os"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	// box is the sandbox of all stories.
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(10, "story")
)

// TestMain starts the sandbox.
func TestMain(m *testing.M) {
	options := sandbox.Options{Dir: os.Getenv("STORIES_DIR")}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: time.Second,
		Upgrade: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: suite.PortalClusters}))
}
