// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const accounts = 10

var (
	box *sandbox.Sandbox
	// live is a client of the management cluster that can watch.
	live client.WithWatch
	used atomic.Int32
	page health.Page
)

// TestMain starts the sandbox that all tests share.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := flag.Set("test.parallel", "8"); err != nil { // tests spend most of their time waiting
		return failed(err)
	}
	var err error
	if page, err = health.ReadPage("../../docs/gitops.md"); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr}
	options.Portal.Seed = 1
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: 2 * time.Second, Upgrade: 3 * time.Second, Delete: 2 * time.Second,
	}
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: fmt.Sprintf("user-%d", i), Email: email(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		})
	}
	if box, err = sandbox.Start(ctx, options); err != nil {
		return failed(err)
	}
	var code int
	if live, err = client.NewWithWatch(box.Config, client.Options{Scheme: box.Client.Scheme()}); err == nil {
		code = m.Run()
	} else {
		code = failed(err)
	}
	if code != 0 {
		box.Keep()
		fmt.Fprintln(os.Stderr, "the logs of all servers are in", box.Dir)
	}
	if err := box.Close(); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func email(i int) string    { return fmt.Sprintf("gitops-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of gitops %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }
