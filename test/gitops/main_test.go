// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box      *sandbox.Sandbox
	accounts = suite.NewAccounts(10, "gitops")
	// live is a client of the management cluster that can watch.
	live  client.WithWatch
	pages health.Pages
)

// TestMain starts the sandbox that all tests share.
func TestMain(m *testing.M) {
	options := sandbox.Options{}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Upgrade: 3 * time.Second, Delete: 2 * time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: suite.PortalClusters, Setup: setUp}))
}

func setUp(context.Context) (err error) {
	if pages, err = health.ReadPages("../.."); err != nil {
		return err
	}
	live, err = suite.WatchClient(box)
	return err
}
