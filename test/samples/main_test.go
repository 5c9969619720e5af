// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// account is the name of the portal account, of its user and of the phase whose samples run.
const account = "ready"

var box *sandbox.Sandbox

// TestMain starts a sandbox without the manager, which tests start later.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	options := sandbox.Options{Out: os.Stderr, Dir: os.Getenv("SAMPLES_DIR"), WithoutManager: true}
	options.Portal.Users = []emulator.User{{
		ID: account, Email: "ready@portal.example", Password: "password of ready", Account: account, Role: emulator.RoleAdministrator,
	}}
	options.Portal.Durations = emulator.Durations{Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second}
	var err error
	if box, err = sandbox.Start(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := box.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
