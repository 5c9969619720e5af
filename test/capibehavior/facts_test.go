// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"context"
	"os"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/capibehavior/facts"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box *sandbox.Sandbox
	// live is a client of the management cluster that can watch.
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

// TestFacts checks the facts with the core manager of the version in go.mod.
func TestFacts(t *testing.T) {
	if box == nil {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	for _, fact := range facts.All() {
		t.Run(fact.Name, func(t *testing.T) {
			t.Parallel()
			fact.Check(servers{t, suite.NewFixture(t, box, emulator.User{ID: fact.Name})})
		})
	}
}

// servers are real ones. No controller in the management cluster acts on Nodes and Pods, so it is also the workload cluster of all Clusters. The
// names of their Nodes differ.
type servers struct {
	*testing.T
	fixture *suite.Fixture
}

// Management implements facts.Floor.
func (servers) Management() client.Client { return live }

// Workload implements facts.Floor.
func (servers) Workload() (client.Client, []byte) { return live, kubeconfig }

// Eventually implements facts.Floor.
func (s servers) Eventually(actual any, intervals ...any) gomega.AsyncAssertion {
	s.Helper()
	return s.fixture.Eventually(actual, intervals...)
}

// Follow implements facts.Floor.
func (s servers) Follow(list client.ObjectList, see func(watch.Event), options ...client.ListOption) {
	s.Helper()
	suite.Follow(s.T, live, list, see, options...)
}
