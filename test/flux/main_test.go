// SPDX-License-Identifier: Apache-2.0

package flux

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

// root is the folder of the repository.
const root = "../.."

var (
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(1, "flux")

	previous, current suite.Release
)

// TestMain starts a sandbox without the provider.
func TestMain(m *testing.M) {
	var built bool
	previous, current, built = suite.Releases(root)
	if _, err := os.Stat(filepath.Join(root, "bin", "kustomize-controller")); err != nil || !built {
		fmt.Println("skipped: Flux or the previous release is not built. Run make test-flux.")
		os.Exit(0)
	}
	options := sandbox.Options{WithoutProvider: true}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options}))
}
