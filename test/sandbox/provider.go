// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload/process"
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
		return s.writeManagerKubeconfig(objects)
	})
}

// writeManagerKubeconfig lets the manager act as its ServiceAccount.
func (s *Sandbox) writeManagerKubeconfig(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "ServiceAccount" {
			continue
		}
		user := "system:serviceaccount:" + object.GetNamespace() + ":" + object.GetName()
		var err error
		s.managerKubeconfig, err = s.plane.WriteKubeconfig("manager.kubeconfig", user,
			"system:serviceaccounts", "system:serviceaccounts:"+object.GetNamespace())
		return err
	}
	return errors.New("config/default has no ServiceAccount")
}

// StartManager runs our manager and returns when it is ready.
func (s *Sandbox) StartManager(ctx context.Context) error {
	if s.manager.Running() {
		return ErrManagerRuns
	}
	return s.progress.step("portal provider: manager", func() error {
		if _, err := os.Stat(s.Binary("manager")); err != nil {
			return fmt.Errorf("run make build: %w", err)
		}
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		s.MetricsURL = "http://" + hostPort(ports[1]) + "/metrics"
		s.manager, err = process.Start(ctx, process.Spec{
			Name: "manager",
			Path: s.Binary("manager"),
			Args: append([]string{
				"--health-addr=" + hostPort(ports[0]),
				"--diagnostics-address=" + hostPort(ports[1]), "--insecure-diagnostics",
				"--allow-unverified-core", // the sandbox has no inventory of clusterctl's; core is the version that was tried
			}, s.options.ManagerArgs...),
			Env:   []string{"KUBECONFIG=" + s.managerKubeconfig},
			Log:   filepath.Join(s.Dir, "manager.log"),
			Ready: readyz(ports[0]),
			Grace: managerGrace,
		})
		return err
	})
}

// StopManager ends our manager as a Deployment would, with SIGTERM, and returns when it has ended.
func (s *Sandbox) StopManager() { s.manager.Stop() }

// KillManager ends our manager as a crash would.
func (s *Sandbox) KillManager() { s.manager.Kill() }
