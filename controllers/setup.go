// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalbootstrapconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcluster"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalclusteridentity"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalmachine"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalmachinepool"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/fair"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/wakeup"
)

// UserAgent is what API servers and the portal see.
const UserAgent = "cluster-api-provider-portal"

// passTimeout bounds all calls of a pass over one control plane together, because an API server may answer each of many calls
// just in time. It is longer than one read of the portal may take (20 s to connect and 60 s to answer), so a slow portal's answer
// is still seen. Calls that change something at the portal, and the storing of their results, have contexts of their own
// (persist.Detach). A pass does not wait for a late answer to a creation (operation.Calls).
const passTimeout = 2 * time.Minute

// Options of the controllers.
type Options struct {
	// WatchFilterValue of the label cluster.x-k8s.io/watch-filter. If it is empty, all objects are reconciled.
	WatchFilterValue string
	// PortalHosts are the portals that identities may name, in the form of cloud.NewHosts. If it is empty, every public host is
	// allowed.
	PortalHosts []string
	// IdentityNamespace holds the Secrets of PortalClusterIdentities. If it is empty, none of them is used.
	IdentityNamespace string
	// AccountShare and MaxOpenMutations are those of ratelimit.Options, for each account.
	AccountShare     float64
	MaxOpenMutations int
	// WorkloadQPS and WorkloadBurst limit the requests to each workload cluster's API server.
	WorkloadQPS   float32
	WorkloadBurst int
	// Transport carries the requests to portals. Nil: HTTPS.
	Transport http.RoundTripper
	// Workloads are the connections to workload clusters. Nil: by the network.
	Workloads access.Workloads
	// Metrics is where the metrics are registered. Nil: controller-runtime's registry, which takes those of one manager in a process.
	Metrics prometheus.Registerer
	// Rand makes the jitter of the limiters. Nil: a random seed.
	Rand *rand.Rand
	// How many objects are reconciled at the same time.
	ClusterConcurrency, ControlPlaneConcurrency, MachineConcurrency int
}

// ClientOptions make the manager's client read Secrets live: the manager watches their metadata only. Package secretcache keeps those in use.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}

// limiters are the options of the limiter of each account.
func (o Options) limiters(wake func(flow string)) ratelimit.Options {
	return ratelimit.Options{Wake: wake, MaxOpen: o.MaxOpenMutations, AccountShare: o.AccountShare, Rand: o.Rand}
}

func (o Options) registry() prometheus.Registerer {
	if o.Metrics != nil {
		return o.Metrics
	}
	return ctrlmetrics.Registry
}

// SetupWithManager adds all reconcilers to the manager. calls are the creations that they have sent.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options, calls *operation.Calls) error {
	hosts, err := cloud.NewHosts(options.PortalHosts...)
	if err != nil {
		return fmt.Errorf("set up the portal hosts: %w", err)
	}
	wakeups, answers := wakeup.New(), outcome.NewAnswers()
	secrets := secretcache.New(mgr.GetCache(), mgr.GetClient()) // which reads Secrets live
	identities := &identity.Resolver{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Secrets: secrets,
		Namespace: options.IdentityNamespace, Hosts: hosts, Transport: options.Transport, UserAgent: UserAgent,
		Pool:    &cloud.Pool{Options: options.limiters(wakeups.Wake)},
		Observe: metrics.ObserveCall, ObserveLogin: metrics.ObserveLogin,
	}
	if err := identities.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	operations := &metrics.Operations{Reader: mgr.GetClient(), WatchFilterValue: options.WatchFilterValue, Elected: mgr.Elected()}
	if err := metrics.Register(options.registry(), &identities.Accounts, operations); err != nil {
		return fmt.Errorf("set up the metrics: %w", err)
	}
	cluster := &portalcluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Identities: identities, Answers: answers, WatchFilterValue: options.WatchFilterValue, Calls: calls,
		Recorder: newRecorder(mgr, "portalcluster"), Woken: wakeups.Clusters(),
	}
	if err := cluster.SetupWithManager(ctx, mgr, fair.Workers(options.ClusterConcurrency)); err != nil {
		return fmt.Errorf("set up the PortalCluster controller: %w", err)
	}
	owners := &ownership.Owners{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	controlPlane := &portalcontrolplane.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Identities: identities,
		Access:           &access.Kubeconfigs{Client: mgr.GetClient(), Secrets: secrets, Workloads: options.workloads(mgr, hosts), Hosts: hosts},
		Ownership:        owners,
		Lifecycle:        &lifecycle.Clusters{Ownership: owners, Answers: answers},
		WatchFilterValue: options.WatchFilterValue, Woken: wakeups.ControlPlanes(), Calls: calls,
		Recorder: newRecorder(mgr, "portalcontrolplane"),
	}
	passes := fair.Workers(options.ControlPlaneConcurrency)
	passes.ReconciliationTimeout = passTimeout
	if err := controlPlane.SetupWithManager(ctx, mgr, passes); err != nil {
		return fmt.Errorf("set up the PortalControlPlane controller: %w", err)
	}
	if options.IdentityNamespace != "" {
		shared := &portalclusteridentity.Reconciler{Client: mgr.GetClient(), Identities: identities, Recorder: newRecorder(mgr, "portalclusteridentity")}
		if err := shared.SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
			return fmt.Errorf("set up the PortalClusterIdentity controller: %w", err)
		}
	}
	return setupMembers(ctx, mgr, options)
}

func newRecorder(mgr ctrl.Manager, controller string) outcome.Recorder {
	return outcome.Recorder{EventRecorder: mgr.GetEventRecorder(controller), Log: mgr.GetLogger()}
}

// setupMembers adds the reconcilers of the kinds that Machines and MachinePools refer to.
func setupMembers(ctx context.Context, mgr ctrl.Manager, options Options) error {
	machine := &portalmachine.Reconciler{Client: mgr.GetClient(), WatchFilterValue: options.WatchFilterValue}
	if err := machine.SetupWithManager(ctx, mgr, fair.Workers(options.MachineConcurrency)); err != nil {
		return fmt.Errorf("set up the PortalMachine controller: %w", err)
	}
	pool := &portalmachinepool.Reconciler{
		Client: mgr.GetClient(), Recorder: newRecorder(mgr, "portalmachinepool"), WatchFilterValue: options.WatchFilterValue,
	}
	if err := pool.SetupWithManager(ctx, mgr, fair.Workers(options.MachineConcurrency)); err != nil {
		return fmt.Errorf("set up the PortalMachinePool controller: %w", err)
	}
	bootstrap := &portalbootstrapconfig.Reconciler{
		Client: mgr.GetClient(), Recorder: newRecorder(mgr, "portalbootstrapconfig"), WatchFilterValue: options.WatchFilterValue,
	}
	if err := bootstrap.SetupWithManager(ctx, mgr, fair.Workers(options.MachineConcurrency)); err != nil {
		return fmt.Errorf("set up the PortalBootstrapConfig controller: %w", err)
	}
	return nil
}

// workloads are the connections to workload clusters, as the control planes use them.
type workloads struct{ *workload.Connections }

func (o Options) workloads(mgr ctrl.Manager, hosts *cloud.Hosts) access.Workloads {
	if o.Workloads != nil {
		return o.Workloads
	}
	return workloads{&workload.Connections{
		Dial:      func(server *url.URL) workload.DialFunc { return hosts.DialServer(server) },
		UserAgent: UserAgent, QPS: o.WorkloadQPS, Burst: o.WorkloadBurst, Log: mgr.GetLogger(), Trim: workers.TrimNode,
	}}
}

// Ensure implements access.Workloads.
func (w workloads) Ensure(controlPlane client.ObjectKey, kubeconfig []byte) access.Connection {
	return w.Connections.Ensure(controlPlane, kubeconfig)
}

// Known implements access.Workloads.
func (w workloads) Known(controlPlane client.ObjectKey, digest string) access.Connection {
	if known := w.Connections.Known(controlPlane, digest); known != nil {
		return known
	}
	return nil
}
