// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// Users of an account. Each row has an account.
const (
	attacker = "attacker"
	person   = "person" // someone else
)

const loopback = "127.0.0.1"

var (
	withoutControls = flag.Bool("without-controls", false, "remove the policies, and expect the attacks that they hold to succeed")

	box *sandbox.Sandbox
)

// TestMain starts the sandbox that all rows share.
func TestMain(m *testing.M) {
	flag.Parse()
	options := sandbox.Options{
		Dir: os.Getenv("ATTACKS_DIR"), CoreRole: true, WithoutWorkloads: true, WithoutManager: true, ManagerArgs: []string{"--portal-host=" + loopback},
	}
	options.Portal.Durations = emulator.Durations{Pending: 50 * time.Millisecond, Create: 50 * time.Millisecond, Delete: 50 * time.Millisecond}
	for i := range rows {
		options.Portal.Users = append(options.Portal.Users, suite.User(attacker, i), suite.User(person, i))
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: len(rows), Setup: setUp}))
}

func setUp(ctx context.Context) (err error) {
	if *withoutControls {
		if err := removePolicies(ctx); err != nil {
			return err
		}
	}
	if err := suite.AwaitPolicies(ctx, box); err != nil {
		return err
	}
	return box.StartManager(ctx)
}

// removePolicies deletes the bindings of the provider's policies.
func removePolicies(ctx context.Context) error {
	all := &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}
	if err := box.Client.List(ctx, all, client.HasLabels{"cluster.x-k8s.io/provider"}); err != nil {
		return err
	}
	for i := range all.Items {
		if err := box.Client.Delete(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
