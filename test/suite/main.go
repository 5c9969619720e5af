// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// startTimeout is generous: on a busy machine, an API server takes more than a minute to start.
const startTimeout = 10 * time.Minute

// nodeGrace is how long Nodes stay Ready without heartbeats, which a busy machine delays. A test that needs a Node that is not Ready ends its
// heartbeats and writes its condition.
const nodeGrace = 5 * time.Minute

// PortalClusters is how many tests that have a portal cluster each may run at the same time. The servers of one take half a GB and 5 inotify
// instances. The servers of a sandbox take 5 more, a user has 128 on most machines, and make test-suites runs two packages at a time. With
// fewer, two fast CPUs are often idle. With more, all tests together take as long.
const PortalClusters = 6

// Options configures Main.
type Options struct {
	// Sandbox configures the sandbox.
	Sandbox sandbox.Options
	// Parallel is the number of parallel tests that run at the same time. Tests mostly wait, so it can be larger than the number of CPUs,
	// which is the default.
	Parallel int
	// StartTimeout is how long the start of the sandbox and Setup may take. The default is startTimeout.
	StartTimeout time.Duration
	// Setup is called after the sandbox has started, before the tests.
	Setup func(context.Context) error
	// Teardown is called after the tests, before the sandbox is closed. It is also called if Setup failed.
	Teardown func(passed bool) error
}

// Main starts a sandbox, stores it in box, runs the tests and returns the exit code for TestMain. If a test fails, the logs of all servers
// are kept.
func Main(m *testing.M, box **sandbox.Sandbox, options Options) int {
	code, err := run(m, box, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, started **sandbox.Sandbox, options Options) (code int, err error) {
	log.SetLogger(logr.Discard())
	if options.Parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(options.Parallel)); err != nil {
			return 1, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(options.StartTimeout, startTimeout))
	defer cancel()
	box, err := Start(ctx, options.Sandbox)
	if err != nil {
		return 1, err
	}
	*started = box
	defer func() {
		if code != 0 {
			box.Keep()
			fmt.Fprintln(os.Stderr, "the logs of all servers are in", box.Dir)
		}
		err = errors.Join(err, box.Close())
	}()
	if options.Teardown != nil {
		defer func() { err = errors.Join(err, options.Teardown(code == 0)) }()
	}
	if options.Setup != nil {
		if err := options.Setup(ctx); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// Start starts a sandbox that prints its progress. Its portal draws the same random values in each run. The other options make it faster, and
// independent of the speed of the machine.
func Start(ctx context.Context, options sandbox.Options) (*sandbox.Sandbox, error) {
	options.Out, options.Portal.Seed = os.Stderr, 1
	options.ReuseWorkloads, options.StoredVersionsOnly = true, true
	options.NodeGrace = cmp.Or(options.NodeGrace, nodeGrace)
	return sandbox.Start(ctx, options)
}

// StartFor starts a sandbox for one test. If the test fails, the logs of all servers are kept.
func StartFor(t *testing.T, options sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	box, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			box.Keep()
			t.Log("the logs of all servers are in", box.Dir)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// WatchClient returns a client of the sandbox's management cluster that can watch.
func WatchClient(box *sandbox.Sandbox) (client.WithWatch, error) {
	return client.NewWithWatch(box.Config, client.Options{Scheme: box.Client.Scheme()})
}
