// SPDX-License-Identifier: Apache-2.0

// Command manager runs the portal provider's controllers.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // the public authorities, where the image has no file of them
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // makes --logging-format=json known
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/version"
)

// gracePeriod lets calls to the portal that are under way end, and their outcomes be stored, before the manager stops. Creations, which
// take longer, end before it begins (runUntil).
const gracePeriod = 90 * time.Second

// options of the manager. Every flag is one of them.
type options struct {
	leaderElect               bool
	leaseNamespace            string
	leaseDuration             time.Duration
	renewDeadline, retryEvery time.Duration
	namespace                 string
	healthAddr, profilerAddr  string
	syncPeriod                time.Duration
	kubeQPS                   float32
	kubeBurst                 int
	controllers               controllers.Options
	manager                   flags.ManagerOptions
	logs                      *logs.Options
	metricsCertDir            string
	version                   bool
}

func main() {
	o := options{logs: logs.NewOptions()}
	o.addFlags(pflag.CommandLine)
	pflag.Parse()
	if o.version {
		fmt.Printf("manager version %s\n", version.Get())
		return
	}
	if err := o.validate(pflag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2) // as pflag does for flags that it cannot parse
	}
	if err := o.run(); err != nil {
		klog.Background().Error(err, "The manager stopped")
		klog.Flush()
		os.Exit(1)
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.AddGoFlagSet(flag.CommandLine)
	logsv1.AddFlags(o.logs, fs)
	fs.Lookup("v").Usage += fmt.Sprintf(". Above %d, Secrets would be logged, so more counts as %[1]d, in --vmodule too", maxVerbosity)
	flags.AddManagerOptions(fs, &o.manager)
	fs.BoolVar(&o.version, "version", false, "Print the version and exit.")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Let only one of several managers be active.")
	fs.StringVar(&o.leaseNamespace, "leader-elect-namespace", "", "Namespace of the lease. If empty, the namespace that the manager runs in. Required outside of a cluster.")
	fs.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long others wait before they take over the leadership.")
	fs.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the leader tries to renew its leadership before it gives up.")
	fs.DurationVar(&o.retryEvery, "leader-elect-retry-period", 2*time.Second, "How long to wait between tries to get or renew the leadership.")
	fs.StringVar(&o.namespace, "namespace", "", "Namespace to watch. If empty, all namespaces are watched.")
	fs.StringVar(&o.controllers.IdentityNamespace, "identity-namespace", os.Getenv("POD_NAMESPACE"),
		"Namespace of the Secrets of PortalClusterIdentities, $POD_NAMESPACE by default. If empty, or with --namespace, PortalClusterIdentities cannot be used.")
	fs.StringVar(&o.controllers.WatchFilterValue, "watch-filter", "",
		fmt.Sprintf("Only reconcile objects with label %s of this value. If empty, all objects are reconciled.", clusterv1.WatchLabel))
	fs.StringVar(&o.healthAddr, "health-addr", ":9440", "Address of the health probes.")
	fs.StringVar(&o.metricsCertDir, "metrics-cert-dir", "",
		"Directory with the certificate of the diagnostics endpoint, tls.crt and tls.key. A renewed certificate is used without a restart. If empty, the manager makes a self-signed certificate at every start.")
	fs.StringVar(&o.profilerAddr, "profiler-address", "", "Address of the pprof profiler, for example localhost:6060. If empty, the profiler is off.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "How often every object is reconciled even if nothing changed.")
	fs.Float32Var(&o.kubeQPS, "kube-api-qps", 100, "Requests per second to the management cluster's API server.")
	fs.IntVar(&o.kubeBurst, "kube-api-burst", 200, "Requests to the management cluster's API server that may exceed --kube-api-qps in one burst.")
	fs.Float32Var(&o.controllers.WorkloadQPS, "workload-client-qps", 20, "Requests per second to the API server of each workload cluster.")
	fs.IntVar(&o.controllers.WorkloadBurst, "workload-client-burst", 30,
		"Requests to the API server of a workload cluster that may exceed --workload-client-qps in one burst.")
	fs.StringSliceVar(&o.controllers.PortalHosts, "portal-host", nil,
		"Portal that identities may name: portal.example.com, portal.example.com:8443 or *.example.com. Repeat the flag for more. If empty, identities may name every host whose address is not loopback, link-local or a metadata service's. A host that is listed by its own name may have such an address.")
	fs.Float64Var(&o.controllers.AccountShare, "account-share", 1,
		"Part of each portal account's rate limit that this manager uses at most, more than 0 and at most 1. If several managers use one account, give each a share. The shares should add up to 1 at most.")
	fs.IntVar(&o.controllers.MaxOpenMutations, "max-open-mutations", ratelimit.DefaultMaxOpen,
		"How many requests that change something at the portal may be unanswered at the same time, per account. A crash of the manager leaves the outcome of at most this many unknown. If the portal takes 3 s to answer, N allows N/3 changes a second.")
	fs.IntVar(&o.controllers.ClusterConcurrency, "portalcluster-concurrency", 10, "Number of PortalClusters to reconcile at the same time.")
	fs.IntVar(&o.controllers.ControlPlaneConcurrency, "portalcontrolplane-concurrency", 20, "Number of PortalControlPlanes to reconcile at the same time.")
	fs.IntVar(&o.controllers.MachineConcurrency, "portalmachine-concurrency", 10, "Number of PortalMachines to reconcile at the same time.")
}

// validate returns all mistakes in the flags, by their names, before anything starts.
func (o *options) validate(arguments []string) error {
	var wrong []error
	problem := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	problem(len(arguments) > 0, "the manager takes flags only, not %q", arguments)
	for flag, n := range map[string]int{
		"max-open-mutations":             o.controllers.MaxOpenMutations,
		"portalcluster-concurrency":      o.controllers.ClusterConcurrency,
		"portalcontrolplane-concurrency": o.controllers.ControlPlaneConcurrency,
		"portalmachine-concurrency":      o.controllers.MachineConcurrency,
		"kube-api-burst":                 o.kubeBurst,
		"workload-client-burst":          o.controllers.WorkloadBurst,
	} {
		problem(n < 1, "--%s=%d: must be at least 1", flag, n)
	}
	for flag, qps := range map[string]float32{"kube-api-qps": o.kubeQPS, "workload-client-qps": o.controllers.WorkloadQPS} {
		problem(!(qps > 0), "--%s=%v: must be more than 0", flag, qps) // NaN is not
	}
	share := o.controllers.AccountShare
	problem(!(share > 0 && share <= 1), "--account-share=%v: must be more than 0 and at most 1", share) // NaN is neither
	problem(o.syncPeriod <= 0, "--sync-period=%s: must be more than 0", o.syncPeriod)
	for flag, namespace := range map[string]string{"namespace": o.namespace, "leader-elect-namespace": o.leaseNamespace, "identity-namespace": o.controllers.IdentityNamespace} {
		problem(namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0, "--%s=%q: must be the name of a namespace", flag, namespace)
	}
	problem(len(validation.IsValidLabelValue(o.controllers.WatchFilterValue)) > 0,
		"--watch-filter=%q: must be a valid label value", o.controllers.WatchFilterValue)
	_, err := cloud.NewHosts(o.controllers.PortalHosts...)
	problem(err != nil, "--portal-host=%v", err)
	o.validateLease(problem)
	o.validateCertificate(problem)
	_, _, err = flags.GetManagerOptions(o.manager)
	problem(err != nil, "the --tls flags: %v", err)
	invalid := logsv1.Validate(o.logs, nil, nil)
	problem(len(invalid) > 0, "the --log flags: %v", invalid.ToAggregate())
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

// validateLease checks the durations of leader election: a leader that cannot renew has to give up before others take over, and
// after more than one try.
func (o *options) validateLease(problem func(is bool, format string, args ...any)) {
	tries := time.Duration(leaderelection.JitterFactor * float64(o.retryEvery))
	problem(o.retryEvery <= 0, "--leader-elect-retry-period=%s: must be more than 0", o.retryEvery)
	problem(o.renewDeadline <= tries, "--leader-elect-renew-deadline=%s: must be more than %v times --leader-elect-retry-period=%s",
		o.renewDeadline, leaderelection.JitterFactor, o.retryEvery)
	problem(o.leaseDuration.Truncate(time.Second) <= o.renewDeadline,
		"--leader-elect-lease-duration=%s: must be more than --leader-elect-renew-deadline=%s, and counts in whole seconds", o.leaseDuration, o.renewDeadline)
}

// validateCertificate refuses a directory without a certificate: the metrics server would make a self-signed one instead.
func (o *options) validateCertificate(problem func(is bool, format string, args ...any)) {
	if o.metricsCertDir == "" {
		return
	}
	_, err := tls.LoadX509KeyPair(filepath.Join(o.metricsCertDir, "tls.crt"), filepath.Join(o.metricsCertDir, "tls.key"))
	problem(err != nil, "--metrics-cert-dir=%s: has no usable tls.crt and tls.key: %v", o.metricsCertDir, err)
}

// run starts the manager and runs until SIGTERM or SIGINT. A second signal ends it at once.
func (o *options) run() error {
	boundVerbosity(o.logs)
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		return err
	}
	log := klog.Background()
	ctrl.SetLogger(log)
	mgr, err := o.newManager()
	if err != nil {
		return err
	}
	ctx := ctrl.LoggerInto(ctrl.SetupSignalHandler(), log)
	if o.namespace != "" {
		o.controllers.IdentityNamespace = "" // identities, and who uses them, are seen in the whole cluster only
	}
	calls := &operation.Calls{}
	if err := controllers.SetupWithManager(ctx, mgr, o.controllers, calls); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ready", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	log.Info("Starting the manager", "version", version.Get().String())
	return runUntil(ctx, mgr.Start, calls)
}

// runUntil runs the manager until the context ends. If creations are under way then, the manager first waits for their answers, which may take
// minutes and are lost without it. In this time it does all its work but sends no creation: the lease is renewed, the probes are
// answered, and no cluster waits for the next manager. A manager that ends by itself, such as one that has lost the lease, waits as well. The
// next leader may be working then, so the answer is stored only if that leader has not replaced the operation.
func runUntil(ctx context.Context, start func(context.Context) error, calls *operation.Calls) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := context.AfterFunc(ctx, func() {
		klog.FromContext(ctx).Info("Asked to stop", "unansweredCreations", calls.Open())
		calls.Drain()
		stop()
	})
	defer ended()
	err := start(running)
	calls.Drain()
	return err
}

func (o *options) newManager() (ctrl.Manager, error) {
	_, metrics, err := flags.GetManagerOptions(o.manager)
	if err != nil {
		return nil, fmt.Errorf("flags: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the management cluster: %w", err)
	}
	return ctrl.NewManager(o.limit(config), o.managerOptions(*metrics))
}

// limit returns the configuration of the manager's clients for the management cluster.
func (o *options) limit(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = o.kubeQPS, o.kubeBurst
	config.UserAgent = controllers.UserAgent
	return config
}

func (o *options) managerOptions(metrics metricsserver.Options) ctrl.Options {
	grace := gracePeriod
	metrics.CertDir = o.metricsCertDir
	boundDiagnostics(metrics.ExtraHandlers)
	managerOptions := ctrl.Options{
		Scheme:                        newScheme(),
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.healthAddr,
		PprofBindAddress:              o.profilerAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "controller-leader-election-capportal",
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryEvery,
		LeaderElectionReleaseOnCancel: true, // only after all calls under way have ended
		GracefulShutdownTimeout:       &grace,
		Cache:                         cache.Options{SyncPeriod: &o.syncPeriod, DefaultTransform: controllers.Trim},
		Client:                        controllers.ClientOptions(),
	}
	if o.namespace != "" {
		// Not DefaultNamespaces: with such a cache Cluster API cannot wait for its own writes, and every reconcile fails.
		managerOptions.Cache.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", o.namespace)
	}
	return managerOptions
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, clusterctlv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // only a programming error can make it fail
		}
	}
	return scheme
}
