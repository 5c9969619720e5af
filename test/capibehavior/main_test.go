// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"context"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box *sandbox.Sandbox
	// live is a client of the management cluster that can watch. No controller there acts on Nodes and Pods, so it is also the workload cluster of
	// all Clusters. The names of their Nodes differ.
	live client.WithWatch
	// kubeconfig leads to it.
	kubeconfig []byte
)

// TestMain starts the servers that all facts share.
func TestMain(m *testing.M) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		os.Exit(m.Run()) // TestFacts skips
	}
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox:  sandbox.Options{Dir: os.Getenv("FACTS_DIR"), WithoutManager: true, WithoutPortal: true},
		Parallel: 64, // facts mostly wait for core, which reconciles an object once a second at most
		Setup: func(context.Context) (err error) {
			if kubeconfig, err = os.ReadFile(box.Kubeconfig); err != nil {
				return err
			}
			live, err = suite.WatchClient(box)
			return err
		},
	}))
}
