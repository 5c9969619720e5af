// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	// box is the sandbox that most stories share.
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(120, "story")

	// A story holds alone while it uses the second sandbox. The first of these stories starts the sandbox.
	alone  sync.Mutex
	second *sandbox.Sandbox
)

// TestMain starts the sandbox that most stories share.
func TestMain(m *testing.M) {
	shared := options()
	shared.Dir = os.Getenv("STORIES_DIR")
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox:  shared,
		Parallel: suite.PortalClusters,
		Teardown: func(bool) error {
			if second == nil {
				return nil
			}
			return second.Close()
		},
	}))
}

func options() (o sandbox.Options) {
	o.Portal.Users = accounts.Users()
	o.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: time.Second,
		Upgrade: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	return o
}
