// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

const loopback = "127.0.0.1"

// Options configures a sandbox. The zero value runs all parts.
type Options struct {
	// Root is the checkout or the bundle, with the manifests in config/ and the binaries in bin/. If it is empty, the sandbox calls FindRoot.
	Root string
	// Dir receives kubeconfigs, certificates and logs. It must be empty or not exist. If Dir is not set, the sandbox uses a temporary
	// directory, which Close removes.
	Dir string
	// Out receives a line for each started part. If it is nil, the sandbox prints nothing.
	Out io.Writer

	// Portal configures the emulated portal. The sandbox sets its Workloads unless WithoutWorkloads is set.
	Portal emulator.Options
	// PortalAddress is the address on which the portal listens. The default is a free port of 127.0.0.1.
	PortalAddress string
	// PageAddress is the loopback address of a page with a picture of the sandbox. If it is empty, no page is served.
	PageAddress string

	// APIServerOnly runs only etcd and the API server of the management cluster, with the CRDs of Cluster API in their stored versions and with
	// the CRDs, policies and roles of the provider. Without controllers and webhooks, the API server alone decides what it accepts.
	APIServerOnly bool
	// Empty runs only etcd and the API server of the management cluster, and installs nothing. InstallCore and StartCore can do so later.
	Empty bool
	// Components are folders of config/ whose kustomize components change what config/default installs, such as namespaced (docs/tenants.md).
	// The sandbox creates their namespaces.
	Components []string

	// WithoutCore leaves out Cluster API's CRDs, webhooks and manager.
	WithoutCore bool
	// CoreRole makes Cluster API's manager act as its ServiceAccount, with the roles of its release. Otherwise it acts as an administrator.
	CoreRole bool
	// WithoutManager leaves out our manager. StartManager can start it later.
	WithoutManager bool
	// WithoutProvider leaves out our manager, and also our CRDs, policies and roles. A test then installs them in its own way.
	WithoutProvider bool
	// WithoutPortal leaves out the portal and the identity Secret.
	WithoutPortal bool
	// WithoutWorkloads runs a portal whose clusters have no API server.
	WithoutWorkloads bool

	// ReuseWorkloads makes API servers of deleted portal clusters serve later ones (workload.Options.Reuse). Close then prints how many were
	// started and how many were used again.
	ReuseWorkloads bool
	// NodeGrace is how long a Node of a portal cluster stays Ready without heartbeats. The default is 20 s.
	NodeGrace time.Duration
	// StoredVersionsOnly removes the versions that Cluster API does not store its objects in from its CRDs. The API server converts each change
	// of an object to all served versions, although nothing reads the older ones.
	StoredVersionsOnly bool

	// CoreArgs and ManagerArgs are additional flags of the two managers. They override the sandbox's flags.
	CoreArgs, ManagerArgs []string
}

// Sandbox is a running sandbox.
type Sandbox struct {
	// Kubeconfig is the path of an administrator's kubeconfig for the management cluster.
	Kubeconfig string
	// Config and Client have the same access. The client does not use a cache.
	Config *rest.Config
	Client client.Client
	// Portal is the emulated portal. It is nil if WithoutPortal is set.
	Portal *emulator.Portal
	// PortalAdminURL is the plain HTTP address for reading the portal's request log and setting faults.
	PortalAdminURL string
	// PageURL is the address of the page with the picture. It is empty without Options.PageAddress.
	PageURL string
	// Identity names the Secret with the portal's credentials.
	Identity client.ObjectKey
	// MetricsURL is the address of our manager's metrics.
	MetricsURL string
	// Dir holds the logs: core.log, manager.log, and those of the servers.
	Dir string

	options   Options
	page      *page.Server
	step      atomic.Pointer[page.Step]
	scratch   string
	etcd      *kubeserver.Etcd
	plane     *kubeserver.Plane
	workloads *workload.Clusters
	core      *kubeserver.Process
	manager   *kubeserver.Process
	progress  progress

	coreWebhookPort int
	managerAccount  client.ObjectKey
}

// Start starts a sandbox and returns when all its parts are ready. If Start fails, it ends the parts that it has started.
func Start(ctx context.Context, options Options) (*Sandbox, error) {
	s := &Sandbox{options: options, progress: progress{out: options.Out}}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), s.Close())
	}
	return s, nil
}

func (s *Sandbox) start(ctx context.Context) error {
	if err := s.findPlaces(); err != nil {
		return err
	}
	if s.options.APIServerOnly || s.options.Empty {
		s.options.WithoutPortal, s.options.WithoutManager, s.options.StoredVersionsOnly = true, true, true
	}
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.startManagement(bothCtx) })
	both.Go(func() error { return s.startPortal(bothCtx) })
	if err := both.Wait(); err != nil {
		return err
	}
	if err := s.createIdentity(ctx); err != nil {
		return err
	}
	if err := s.startPage(ctx); err != nil {
		return err
	}
	if s.options.WithoutManager || s.options.WithoutProvider {
		return nil
	}
	return s.StartManager(ctx)
}

// Close ends all parts in the reverse order of their dependencies.
func (s *Sandbox) Close() error {
	failed := []error{s.page.Close()}
	s.StopManager()
	s.core.Stop()
	if s.Portal != nil {
		s.Portal.Close()
	}
	failed = append(failed, s.closeWorkloads())
	if s.plane != nil {
		s.plane.Stop()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	if s.scratch != "" {
		failed = append(failed, os.RemoveAll(s.scratch))
	}
	return errors.Join(failed...)
}

// Wait returns nil when the context ends, or an error when one of the managers ends by itself.
func (s *Sandbox) Wait(ctx context.Context) error {
	ended := make(chan error, 2)
	for _, manager := range []*kubeserver.Process{s.manager, s.core} {
		if manager == nil {
			continue
		}
		go func() {
			<-manager.Done()
			ended <- fmt.Errorf("%s ended by itself (%v), see %s", manager.Name(), manager.Err(), manager.Log())
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// ShowStep shows the present step of a demonstration on the page.
func (s *Sandbox) ShowStep(step page.Step) { s.step.Store(&step) }

// Keep makes Close leave the files in Dir, so that a person can find out what went wrong.
func (s *Sandbox) Keep() { s.scratch = "" }

// PIDs returns the IDs of the running processes.
func (s *Sandbox) PIDs() []int {
	var ids []int
	for _, server := range []*kubeserver.Process{s.manager, s.core} {
		if server.Running() {
			ids = append(ids, server.PID())
		}
	}
	ids = append(ids, s.plane.PIDs()...)
	ids = append(ids, s.etcd.PID())
	if s.workloads != nil {
		ids = append(ids, s.workloads.PIDs()...)
	}
	slices.Sort(ids)
	return ids
}

// Binary returns the path of a binary that make has built, such as clusterctl.
func (s *Sandbox) Binary(name string) string { return filepath.Join(s.options.Root, "bin", name) }

// File returns the path of a file of the checkout or the bundle.
func (s *Sandbox) File(elements ...string) string {
	return filepath.Join(append([]string{s.options.Root}, elements...)...)
}

func (s *Sandbox) findPlaces() error {
	var err error
	if s.options.Root == "" {
		if s.options.Root, err = FindRoot(); err != nil {
			return err
		}
	}
	if s.options.Root, err = filepath.Abs(s.options.Root); err != nil {
		return err
	}
	if s.Dir = s.options.Dir; s.Dir == "" {
		s.Dir, err = os.MkdirTemp("", "portal-sandbox-")
		s.scratch = s.Dir
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty; what an earlier run left would get in the way", s.Dir))
	}
	return nil
}

// FindRoot returns the folder with config/, templates/ and bin/: the one in whose bin/ this program is, in a checkout or a bundle (make
// bundle), else the checkout around the working directory, in which go run and go test work.
func FindRoot() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return "", err
	}
	if root := filepath.Dir(filepath.Dir(program)); isRoot(root) {
		return root, nil
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isRoot(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("neither %s nor %s is inside a checkout or a bundle of the portal provider", program, start)
		}
	}
}

func isRoot(dir string) bool {
	_, noConfig := os.Stat(filepath.Join(dir, "config", "crd"))
	_, noTemplates := os.Stat(filepath.Join(dir, "templates", "cluster-template.yaml"))
	return noConfig == nil && noTemplates == nil
}

// NewScheme returns a scheme with the kinds of a management cluster.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}
