// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// managerGrace is slightly longer than the manager needs to end its calls in progress.
const managerGrace = 100 * time.Second

// ErrManagerRuns is returned by StartManager if the manager is already running.
var ErrManagerRuns = errors.New("the manager is running")

// installProvider installs the CRDs, policies and RBAC of config/default and of the components, without the Deployment.
func (s *Sandbox) installProvider(ctx context.Context) error {
	return s.progress.step("portal provider: CRDs, policies and RBAC", func() error {
		objects, err := s.provider(ctx)
		if err != nil {
			return err
		}
		if err := s.install(ctx, append(namespaces(objects), objects...),
			"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "ClusterRole", "RoleBinding",
			"ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		); err != nil {
			return err
		}
		return s.findManagerAccount(objects)
	})
}

// findManagerAccount finds the ServiceAccount that the manager acts as.
func (s *Sandbox) findManagerAccount(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() == "ServiceAccount" {
			s.managerAccount = client.ObjectKeyFromObject(object)
			return nil
		}
	}
	return errors.New("config/default has no ServiceAccount")
}

// writeManagerKubeconfig writes a kubeconfig with which a manager acts as its ServiceAccount. Each start gets a new certificate, as each
// Pod gets a new token. In an audit log, the certificate distinguishes one manager from the next.
func (s *Sandbox) writeManagerKubeconfig(account client.ObjectKey) (string, error) {
	return s.plane.WriteKubeconfig("manager.kubeconfig", "system:serviceaccount:"+account.Namespace+":"+account.Name,
		"system:serviceaccounts", "system:serviceaccounts:"+account.Namespace)
}

// StartManager runs our manager with additional flags, and returns when the manager is ready.
func (s *Sandbox) StartManager(ctx context.Context, flags ...string) error {
	if s.manager.Running() {
		return ErrManagerRuns
	}
	return s.progress.step("portal provider: manager", func() error { return s.runManager(ctx, flags) })
}

// HandOver starts a second manager with --leader-elect, which waits for the lease of the first, and ends the first with SIGTERM, as a
// roll-out of the Deployment does. It returns, after the first manager has ended, the time at which it sent the signal. The first manager
// needs --leader-elect, too.
func (s *Sandbox) HandOver(ctx context.Context) (time.Time, error) {
	first := s.manager
	err := s.progress.step("portal provider: second manager", func() error { return s.runManager(ctx, s.LeaderElection()) })
	if err != nil {
		return time.Time{}, err
	}
	signalled := time.Now()
	first.Stop()
	return signalled, nil
}

// LeaderElection returns the flags for leader election.
func (s *Sandbox) LeaderElection() []string { return leaderElection(s.managerAccount.Namespace) }

func leaderElection(namespace string) []string {
	return []string{"--leader-elect", "--leader-elect-namespace=" + namespace}
}

func (s *Sandbox) runManager(ctx context.Context, flags []string) error {
	started, metrics, err := s.startManagerAs(ctx, s.Binary("manager"), s.managerAccount, slices.Concat(s.options.ManagerArgs, flags))
	if err != nil {
		return err
	}
	s.manager, s.MetricsURL = started, metrics
	return nil
}

// startManagerAs runs a manager that acts as a ServiceAccount, and returns it and the address of its metrics when it is ready. The flags
// override the sandbox's.
func (s *Sandbox) startManagerAs(ctx context.Context, path string, account client.ObjectKey, flags []string) (*kubeserver.Process, string, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, "", fmt.Errorf("run make build: %w", err)
	}
	kubeconfig, err := s.writeManagerKubeconfig(account)
	if err != nil {
		return nil, "", err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	started, err := kubeserver.Start(ctx, kubeserver.Spec{
		Name: "manager",
		Path: path,
		Args: append([]string{
			"--portal-host=" + s.portalHost(),
			"--health-addr=" + hostPort(ports[0]),
			"--diagnostics-address=" + hostPort(ports[1]), "--insecure-diagnostics",
		}, flags...),
		Env:   []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + account.Namespace}, // as in the Deployment
		Log:   filepath.Join(s.Dir, "manager.log"),
		Ready: readyz(ports[0]),
		Grace: managerGrace,
	})
	return started, "http://" + hostPort(ports[1]) + "/metrics", err
}

// portalHost returns the portal's host for --portal-host. The manager calls a portal on loopback only if the flag lists it. Tests run
// portals on loopback, too.
func (s *Sandbox) portalHost() string {
	if s.Portal == nil {
		return loopback
	}
	base, err := url.Parse(s.Portal.URL())
	if err != nil || base.Hostname() == "" {
		return loopback
	}
	return base.Hostname()
}

// StopManager ends our manager with SIGTERM, as a Deployment would, and returns when it has ended.
func (s *Sandbox) StopManager() { s.manager.Stop() }

// KillManager kills our manager, as a crash would.
func (s *Sandbox) KillManager() { s.manager.Kill() }

// InstallProvider installs our CRDs, policies and RBAC again after a test has removed them.
func (s *Sandbox) InstallProvider(ctx context.Context) error { return s.installProvider(ctx) }
