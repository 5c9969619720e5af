// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// controllers lists the controllers that have an effect in a management cluster without Nodes.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"validatingadmissionpolicy-status-controller",
}

// startManagement starts the management cluster, installs everything in it, and starts Cluster API.
func (s *Sandbox) startManagement(ctx context.Context) error {
	if err := s.progress.step("management cluster: etcd and kube-apiserver", func() error { return s.startAPIServer(ctx) }); err != nil {
		return err
	}
	if s.options.Empty {
		return nil
	}
	if err := s.installCore(ctx); err != nil {
		return err
	}
	if !s.options.WithoutProvider {
		if err := s.installProvider(ctx); err != nil {
			return err
		}
	}
	if s.options.APIServerOnly {
		return nil
	}
	// The garbage collector looks for new kinds only every 30 seconds. If it starts after the CRDs exist, it knows them at once.
	if err := s.progress.step("management cluster: kube-controller-manager", func() error {
		return s.plane.StartControllerManager(ctx, s.Binary("kube-controller-manager"), "--controllers="+strings.Join(controllers, ","),
			"--use-service-account-credentials") // as in kubeadm: admission policies identify controllers by their account names
	}); err != nil {
		return err
	}
	return s.startCore(ctx)
}

func (s *Sandbox) startAPIServer(ctx context.Context) error {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := os.Stat(s.Binary(name)); err != nil {
			return fmt.Errorf("run make kube: %w", err)
		}
	}
	var err error
	if s.etcd, err = kubeserver.StartEtcd(ctx, s.Binary("etcd"), s.Dir); err != nil {
		return err
	}
	s.plane, err = kubeserver.New(kubeserver.Options{
		Name: "sandbox", Dir: filepath.Join(s.Dir, "management"), Etcd: s.etcd, EtcdPrefix: "/management",
		// Half of this server's CPU time goes to garbage collection otherwise. Its heap is about 100 MB.
		Env: []string{"GOGC=400"},
	})
	if err != nil {
		return err
	}
	if err := s.plane.StartAPIServer(ctx, s.Binary("kube-apiserver")); err != nil {
		return err
	}
	scheme, err := NewScheme()
	if err != nil {
		return err
	}
	s.Kubeconfig, s.Config = s.plane.KubeconfigFile(), s.plane.Config()
	s.Client, err = client.New(s.Config, client.Options{Scheme: scheme})
	return err
}
