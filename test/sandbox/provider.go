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

// managerGrace is a little more than the manager takes at most to end calls that are under way.
const managerGrace = 100 * time.Second

// ErrManagerRuns is returned by StartManager while one runs.
var ErrManagerRuns = errors.New("the manager is running")

// installProvider installs our CRDs, policies and RBAC, as config/default has them, without the Deployment.
func (s *Sandbox) installProvider(ctx context.Context) error {
	return s.progress.step("portal provider: CRDs, policies and RBAC", func() error {
		objects, err := s.kustomize(ctx, "config", "default")
		if err != nil {
			return err
		}
		if err := s.install(ctx, objects,
			"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "ClusterRole", "RoleBinding",
			"ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		); err != nil {
			return err
		}
		return s.findManagerAccount(objects)
	})
}

// findManagerAccount looks for the ServiceAccount that the manager acts as.
func (s *Sandbox) findManagerAccount(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() == "ServiceAccount" {
			s.managerAccount = client.ObjectKeyFromObject(object)
			return nil
		}
	}
	return errors.New("config/default has no ServiceAccount")
}

// writeManagerKubeconfig lets the manager act as its ServiceAccount. Each start has a certificate of its own, as each Pod
// has a token. In an audit log, the certificate distinguishes one manager from the next.
func (s *Sandbox) writeManagerKubeconfig() (string, error) {
	return s.plane.WriteKubeconfig("manager.kubeconfig", "system:serviceaccount:"+s.managerAccount.Namespace+":"+s.managerAccount.Name,
		"system:serviceaccounts", "system:serviceaccounts:"+s.managerAccount.Namespace)
}

// StartManager runs our manager, with further flags, and returns when it is ready.
func (s *Sandbox) StartManager(ctx context.Context, flags ...string) error {
	if s.manager.Running() {
		return ErrManagerRuns
	}
	return s.progress.step("portal provider: manager", func() error { return s.runManager(ctx, flags) })
}

// HandOver starts a second manager with --leader-elect, which waits for the lease of the one that runs, and ends that one with SIGTERM, as a
// roll-out of the Deployment does. It returns when it sent the signal; the first manager has ended then. The first needs --leader-elect, too.
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

// LeaderElection returns the flags with which one of several managers is active.
func (s *Sandbox) LeaderElection() []string {
	return []string{"--leader-elect", "--leader-elect-namespace=" + s.managerAccount.Namespace}
}

func (s *Sandbox) runManager(ctx context.Context, flags []string) error {
	if _, err := os.Stat(s.Binary("manager")); err != nil {
		return fmt.Errorf("run make build: %w", err)
	}
	kubeconfig, err := s.writeManagerKubeconfig()
	if err != nil {
		return err
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	started, err := kubeserver.Start(ctx, kubeserver.Spec{
		Name: "manager",
		Path: s.Binary("manager"),
		Args: slices.Concat([]string{
			"--portal-host=" + s.portalHost(),
			"--health-addr=" + hostPort(ports[0]),
			"--diagnostics-address=" + hostPort(ports[1]), "--insecure-diagnostics",
			"--allow-unverified-core", // the sandbox has no inventory of clusterctl's; core is the version that was tried
		}, s.options.ManagerArgs, flags),
		Env:   []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + s.managerAccount.Namespace}, // as the Deployment has it
		Log:   filepath.Join(s.Dir, "manager.log"),
		Ready: readyz(ports[0]),
		Grace: managerGrace,
	})
	if err != nil {
		return err
	}
	s.manager, s.MetricsURL = started, "http://"+hostPort(ports[1])+"/metrics"
	return nil
}

// portalHost is where the portal listens: the manager calls a portal on loopback only if it is listed. Tests run portals of their own
// on loopback, too.
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

// StopManager ends our manager as a Deployment would, with SIGTERM, and returns when it has ended.
func (s *Sandbox) StopManager() { s.manager.Stop() }

// KillManager ends our manager as a crash would.
func (s *Sandbox) KillManager() { s.manager.Kill() }

// InstallProvider installs our CRDs, policies and RBAC again, after a test has removed them.
func (s *Sandbox) InstallProvider(ctx context.Context) error { return s.installProvider(ctx) }
