// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
)

// startPortal runs the emulated portal in this process, and an etcd for its clusters.
func (s *Sandbox) startPortal(ctx context.Context) error {
	if s.options.WithoutPortal {
		return nil
	}
	return s.progress.step("emulated portal", func() error {
		options := s.options.Portal
		if !s.options.WithoutWorkloads {
			var err error
			s.workloads, err = workload.New(ctx, workload.Options{
				BinDir: s.File("bin"), WorkDir: filepath.Join(s.Dir, "workloads"),
				Reuse: s.options.ReuseWorkloads, NodeGrace: s.options.NodeGrace,
			})
			if err != nil {
				return err
			}
			options.Workloads = s.workloads
		}
		portal, err := emulator.New(options)
		if err != nil {
			return err
		}
		s.Portal = portal
		address := s.options.PortalAddress
		if address == "" {
			address = loopback + ":0"
		}
		if err := portal.Listen(address); err != nil {
			return err
		}
		s.PortalAdminURL, err = portal.ListenAdmin(loopback + ":0")
		return err
	})
}

// closeWorkloads ends the servers of the portal's clusters.
func (s *Sandbox) closeWorkloads() error {
	if s.workloads == nil {
		return nil
	}
	err := s.workloads.Close()
	if s.options.ReuseWorkloads && s.options.Out != nil {
		started, reused := s.workloads.Starts()
		_, printed := fmt.Fprintf(s.options.Out, "workload API servers: %d started, %d used again\n", started, reused)
		err = errors.Join(err, printed)
	}
	return err
}

// createIdentity stores the portal's credentials in the Secret that clusters refer to.
func (s *Sandbox) createIdentity(ctx context.Context) error {
	s.Identity = client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "portal-identity"}
	if s.options.WithoutPortal {
		return nil
	}
	return s.progress.step("identity Secret "+s.Identity.String(), func() error {
		return s.Client.Create(ctx, s.IdentitySecret(s.Identity))
	})
}

// IdentitySecret returns a Secret with the credentials for the portal.
func (s *Sandbox) IdentitySecret(key client.ObjectKey) *corev1.Secret {
	email, password := s.Portal.Credentials()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		StringData: map[string]string{
			infrav1.IdentityBaseURL:  s.Portal.URL(),
			infrav1.IdentityEmail:    email,
			infrav1.IdentityPassword: password,
			infrav1.IdentityCABundle: string(s.Portal.CAPEM()),
		},
	}
}

// offered returns the Kubernetes versions that the portal offers, in the portal's order.
func (s *Sandbox) offered() []string {
	versions := s.options.Portal.Versions
	if versions == nil {
		versions = emulator.DefaultVersions()
	}
	var names []string
	for _, version := range versions {
		names = append(names, version.SemanticVersion)
	}
	return names
}
