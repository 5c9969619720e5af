// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"os"
	"testing"

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
	previous, current = suite.NeedReleases(root, "kustomize-controller", "make test-flux")
	os.Exit(suite.Main(m, &box, suite.InstallerOptions(accounts)))
}
