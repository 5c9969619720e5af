// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// accounts is the number of portal accounts. Each row needs one, and some rows need two.
const accounts = 60

var (
	write = flag.Bool("write", false, "write docs/ownership.md if all rows pass")

	box  *sandbox.Sandbox
	used atomic.Int32

	// away is a second management cluster. It starts when the first row needs it.
	away = sync.OnceValues(func() (*sandbox.Sandbox, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		return sandbox.Start(ctx, sandbox.Options{Out: os.Stderr, WithoutPortal: true})
	})
	awayUsed atomic.Bool
)

// TestMain starts the sandbox that all rows share.
func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr, Dir: os.Getenv("OWNERSHIP_DIR")}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second, Network: time.Second,
	}
	options.Portal.Seed = 1
	for i := range accounts {
		for _, who := range []string{provider, person} {
			options.Portal.Users = append(options.Portal.Users, emulator.User{
				ID: userID(who, i), Email: email(who, i), Password: password(who, i), Account: account(i), Role: emulator.RoleAdministrator,
			})
		}
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // rows spend most of their time waiting
		return failed(err)
	}
	var err error
	if box, err = sandbox.Start(ctx, options); err != nil {
		return failed(err)
	}
	code := m.Run()
	if code == 0 && *write {
		if err := writePage(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if awayUsed.Load() {
		if other, err := away(); err == nil && other.Close() != nil {
			code = 1
		}
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

// The two portal users of an account.
const (
	provider = "provider"
	person   = "person"
)

func userID(who string, i int) string   { return fmt.Sprintf("%s-%d", who, i) }
func email(who string, i int) string    { return fmt.Sprintf("%s-%d@portal.example", who, i) }
func password(who string, i int) string { return fmt.Sprintf("password of %s %d", who, i) }
func account(i int) string              { return fmt.Sprintf("account-%d", i) }
