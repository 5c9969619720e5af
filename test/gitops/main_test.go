// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(1, "gitops")
)

// TestMain starts the sandbox.
func TestMain(m *testing.M) {
	options := sandbox.Options{}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Upgrade: 3 * time.Second, Delete: 2 * time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options}))
}
