// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"os"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// account is the name of the portal account and of the phase whose samples run.
const account = "ready"

// user is the user of the account.
var user = emulator.User{
	ID: account, Email: "ready@portal.example", Password: "password of ready", Account: account, Role: emulator.RoleAdministrator,
}

var box *sandbox.Sandbox

// TestMain starts a sandbox without the manager, which tests start later.
func TestMain(m *testing.M) {
	options := sandbox.Options{Dir: os.Getenv("SAMPLES_DIR"), WithoutManager: true}
	options.Portal.Users = []emulator.User{user}
	options.Portal.Durations = emulator.Durations{Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options}))
}
