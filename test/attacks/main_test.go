// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// accounts is the number of portal accounts. Each row uses one.
const accounts = 60

// Users of an account.
const (
	attacker = "attacker"
	victim   = "victim"
	person   = "person"
)

var (
	withoutControls = flag.Bool("without-controls", false, "remove the policies, and expect the attacks that they hold to succeed")

	box       *sandbox.Sandbox
	clientset *kubernetes.Clientset
	// workloads are the API servers of the portal's clusters. Rows decide how they behave.
	workloads = &servers{}
	// managerFile is the path of a file that only the managers may read.
	managerFile string
)

// managerSecret is the content of managerFile. It plays the part of the ServiceAccount token in a Pod.
const managerSecret = "token-of-the-manager-6f0d1c"

// TestMain starts the sandbox that all rows share.
func TestMain(m *testing.M) {
	flag.Parse()
	// As in the released Deployment, the diagnostics authenticate their users. The emulated portal listens on loopback.
	args := []string{fmt.Sprintf("--insecure-diagnostics=%t", *withoutControls), "--portal-host=" + loopback}
	options := sandbox.Options{Dir: os.Getenv("ATTACKS_DIR"), CoreRole: true, WithoutWorkloads: true, WithoutManager: true, ManagerArgs: args}
	options.Portal.Workloads = workloads
	options.Portal.ListClusters = true
	options.Portal.Durations = emulator.Durations{
		Pending: 50 * time.Millisecond, Create: 50 * time.Millisecond, Scale: 50 * time.Millisecond, Delete: 50 * time.Millisecond, Network: time.Millisecond,
	}
	options.Portal.Shapes.NetworkStatus = 202
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, user(attacker, i), user(victim, i), user(person, i))
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Parallel: 48, Setup: setUp}))
}

func setUp(ctx context.Context) (err error) {
	managerFile = filepath.Join(box.Dir, "token")
	if err := os.WriteFile(managerFile, []byte(managerSecret), 0o600); err != nil {
		return err
	}
	if clientset, err = kubernetes.NewForConfig(box.Config); err != nil {
		return err
	}
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

// user returns a user of an account. Rows search for the beginning of its password.
func user(who string, account int) emulator.User {
	u := suite.User(who, account)
	u.Password = "canary-" + u.Password
	return u
}
