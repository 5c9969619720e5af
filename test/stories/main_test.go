// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const accounts = 100

var (
	// box is the sandbox that most stories share.
	box  *sandbox.Sandbox
	used atomic.Int32

	// A story holds alone while it uses the second sandbox. The first of these stories starts the sandbox.
	alone  sync.Mutex
	second *sandbox.Sandbox
)

// TestMain starts the sandbox that most stories share.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	// Stories mostly wait, so memory limits how many can run at a time: the servers of one portal cluster take half a GB.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	var err error
	if box, err = start(os.Getenv("STORIES_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	for _, b := range []*sandbox.Sandbox{box, second} {
		if b == nil {
			continue
		}
		if err := b.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

func start(dir string) (*sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr, Dir: dir}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: 2 * time.Second, Scale: time.Second,
		Upgrade: 2 * time.Second, Delete: time.Second, Network: time.Second,
	}
	options.Portal.Seed = 1
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: fmt.Sprintf("user-%d", i), Email: email(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		})
	}
	return sandbox.Start(ctx, options)
}

func email(i int) string    { return fmt.Sprintf("story-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of story %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }
