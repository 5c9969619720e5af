// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"flag"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// The two portal users of an account.
const (
	provider = "provider"
	person   = "person"
)

var (
	write = flag.Bool("write", false, "write the lines of docs/development/ownership.md")

	box *sandbox.Sandbox
	// Each row needs one account, and some rows need two.
	accounts = suite.NewAccounts(60, provider, person)

	// away is a second management cluster. It starts when the first row needs it.
	away = sync.OnceValues(func() (*sandbox.Sandbox, error) {
		ctx, cancel := context.WithTimeout(context.Background(), suite.Patience)
		defer cancel()
		return suite.Start(ctx, sandbox.Options{WithoutPortal: true})
	})
	awayUsed atomic.Bool
)

// TestMain starts the sandbox that all rows share.
func TestMain(m *testing.M) {
	flag.Parse()
	options := sandbox.Options{Dir: os.Getenv("OWNERSHIP_DIR")}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second, Network: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: suite.PortalClusters, Teardown: tearDown}))
}

func tearDown(bool) error {
	if !awayUsed.Load() {
		return nil
	}
	if other, err := away(); err == nil {
		return other.Close()
	}
	return nil // a row has reported the error
}
