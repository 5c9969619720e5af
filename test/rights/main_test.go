// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"os"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const watched = "fleet" // the namespace of config/namespaced

var box *sandbox.Sandbox

// TestMain starts a sandbox whose managers have the rights of their releases. Our manager has those of config/namespaced.
func TestMain(m *testing.M) {
	options := sandbox.Options{
		Dir: os.Getenv("RIGHTS_DIR"), CoreRole: true, Components: []string{"namespaced"}, ManagerArgs: []string{"--namespace=" + watched},
	}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options}))
}
