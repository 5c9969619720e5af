// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// asManager in the environment makes the test binary the manager: tests start it as users do, race detector included.
const asManager = "PORTAL_TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func parse(t *testing.T, arguments ...string) (*options, *pflag.FlagSet) {
	t.Helper()
	o := &options{logs: logs.NewOptions()}
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return o, fs
}

// TestFlags: what cannot work is refused at start, by the name of the flag and with what it should be.
func TestFlags(t *testing.T) {
	tests := map[string]struct {
		flags string
		says  []string // none: fine
	}{
		"none":                       {"", nil},
		"all that a release sets":    {"--leader-elect --diagnostics-address=:8443 --insecure-diagnostics=false", nil},
		"one namespace and label":    {"--namespace=team-a --watch-filter=east --sync-period=1h", nil},
		"no worker":                  {"--portalcontrolplane-concurrency=0", []string{"--portalcontrolplane-concurrency=0: must be at least 1"}},
		"no worker for Machines":     {"--portalmachine-concurrency=0", []string{"--portalmachine-concurrency=0"}},
		"a third of the account":     {"--account-share=0.333 --max-open-mutations=1", nil},
		"all of the account":         {"--account-share=1", nil},
		"none of the account":        {"--account-share=0", []string{"--account-share=0: must be more than 0 and at most 1"}},
		"more than the account":      {"--account-share=1.01", []string{"--account-share=1.01"}},
		"no number":                  {"--account-share=NaN", []string{"--account-share=NaN"}},
		"nothing open":               {"--max-open-mutations=0", []string{"--max-open-mutations=0: must be at least 1"}},
		"no such namespace":          {"--namespace=Team_A", []string{`--namespace="Team_A"`}},
		"no such lease namespace":    {"--leader-elect-namespace=a/b", []string{`--leader-elect-namespace="a/b"`}},
		"no such label":              {"--watch-filter=a=b", []string{`--watch-filter="a=b"`}},
		"a lease shorter than tries": {"--leader-elect-lease-duration=10s", []string{"--leader-elect-lease-duration=10s: must be more than --leader-elect-renew-deadline=10s"}},
		"a lease of a part second":   {"--leader-elect-lease-duration=3900ms --leader-elect-renew-deadline=3500ms", []string{"counts in whole seconds"}},
		"a single try":               {"--leader-elect-renew-deadline=2s", []string{"--leader-elect-renew-deadline=2s: must be more than 1.2 times --leader-elect-retry-period=2s"}},
		"no pause":                   {"--leader-elect-retry-period=0s", []string{"--leader-elect-retry-period=0s: must be more than 0"}},
		"JSON logs":                  {"--logging-format=json", nil},
		"no such format of logs":     {"--logging-format=xml", []string{"xml"}},
		"no certificate":             {"--metrics-cert-dir=/nowhere", []string{"--metrics-cert-dir=/nowhere: has no usable tls.crt and tls.key"}},
		"portal hosts":               {"--portal-host=portal.example.com --portal-host=*.example.net,127.0.0.1:8443", nil},
		"a portal's URL":             {"--portal-host=https://portal.example.com", []string{`--portal-host="https://portal.example.com" is no host`}},
		"an unknown TLS version":     {"--tls-min-version=VersionTLS99", []string{"--tls", "VersionTLS99"}},
		"no requests":                {"--kube-api-qps=0 --workload-client-qps=-1", []string{"--kube-api-qps=0: must be more than 0", "--workload-client-qps=-1"}},
		"not a number of requests":   {"--workload-client-qps=NaN", []string{"--workload-client-qps=NaN"}},
		"no burst":                   {"--kube-api-burst=0 --workload-client-burst=0", []string{"--kube-api-burst=0: must be at least 1", "--workload-client-burst=0"}},
		"a word too much":            {"--leader-elect false", []string{`flags only, not ["false"]`}},
		"all at once":                {"--sync-period=-1s --portalcluster-concurrency=0", []string{"--sync-period=-1s", "--portalcluster-concurrency=0"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			o, fs := parse(t, strings.Fields(test.flags)...)
			err := o.validate(fs.Args())
			if (err == nil) != (test.says == nil) {
				t.Fatal(err)
			}
			for _, words := range test.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v, want it to say %s", err, words)
				}
			}
		})
	}
}

// TestAccountFlags checks the accounts' settings that the controllers get.
func TestAccountFlags(t *testing.T) {
	if o, _ := parse(t); o.controllers.AccountShare != 1 || o.controllers.MaxOpenMutations != 20 {
		t.Errorf("by default: %+v", o.controllers)
	}
	if o, _ := parse(t, "--account-share=0.25", "--max-open-mutations=7"); o.controllers.AccountShare != 0.25 || o.controllers.MaxOpenMutations != 7 {
		t.Errorf("%+v", o.controllers)
	}
}

// TestRequestLimits checks the limits of requests to API servers that the clients get.
func TestRequestLimits(t *testing.T) {
	o, _ := parse(t)
	if config := o.limit(&rest.Config{}); config.QPS != 100 || config.Burst != 200 || o.controllers.WorkloadQPS != 20 || o.controllers.WorkloadBurst != 30 {
		t.Errorf("by default: %+v", o)
	}
	o, _ = parse(t, "--kube-api-qps=1", "--kube-api-burst=2", "--workload-client-qps=3", "--workload-client-burst=4")
	if config := o.limit(&rest.Config{}); config.QPS != 1 || config.Burst != 2 || o.controllers.WorkloadQPS != 3 || o.controllers.WorkloadBurst != 4 {
		t.Errorf("%+v", o)
	}
}

// TestPrinted: what the manager prints about itself, and that its logs can be JSON.
func TestPrinted(t *testing.T) {
	run := func(flags ...string) string {
		command := exec.CommandContext(t.Context(), os.Args[0], flags...)
		command.Env = append(os.Environ(), asManager+"=yes", "KUBECONFIG="+filepath.Join(t.TempDir(), "none"))
		out, _ := command.CombinedOutput() // what it exits with is the business of others
		return string(out)
	}
	if out := run("--version"); !strings.HasPrefix(out, "manager version ") || !strings.Contains(out, runtime.Version()) {
		t.Errorf("--version prints %q", out)
	}
	if out := run("--help"); !strings.Contains(out, "--watch-filter") || strings.Contains(out, "feature-gates") {
		t.Errorf("--help has no flags of the provider's, or feature gates of core's:\n%s", out)
	}
	out := run("--logging-format=json", "--kubeconfig="+filepath.Join(t.TempDir(), "none"))
	var line struct{ Msg, Err string }
	if err := json.Unmarshal([]byte(out), &line); err != nil || line.Msg != "The manager stopped" || line.Err == "" {
		t.Errorf("no line of JSON: %v: %s", err, out)
	}
}

// TestManagerOptions: the settings of leader election. TestManagers checks that calls end first.
func TestManagerOptions(t *testing.T) {
	o, _ := parse(t, "--leader-elect", "--namespace=team-a")
	options := o.managerOptions(metricsserver.Options{})
	if !options.LeaderElection || !options.LeaderElectionReleaseOnCancel || *options.GracefulShutdownTimeout != gracePeriod {
		t.Errorf("%+v", options)
	}
	if got := options.Cache.DefaultFieldSelector.String(); got != "metadata.namespace=team-a" || options.Cache.DefaultNamespaces != nil {
		t.Errorf("the cache holds %s, namespaces %v", got, options.Cache.DefaultNamespaces)
	}
	if options.Cache.DefaultTransform == nil {
		t.Error("the cache keeps what no controller reads")
	}
	if o, _ = parse(t); o.managerOptions(metricsserver.Options{}).LeaderElection || o.managerOptions(metricsserver.Options{}).Cache.DefaultFieldSelector != nil {
		t.Error("without flags there is a lease, or a restriction")
	}
}

// TestStopWaitsForCreations asks the manager to stop while the portal has not answered a creation. The manager works on until the answer is
// stored, so that no person has to find out what was created. It sends no further creation. A manager that loses its lease instead waits, too.
func TestStopWaitsForCreations(t *testing.T) {
	for title, lost := range map[string]bool{"asked to stop": false, "the lease is lost": true} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := &operation.Calls{}, time.Now()
				store := fake.NewClientBuilder().WithScheme(newScheme()).Build()
				first, second := creation(t, store, calls, "first"), creation(t, store, calls, "second")
				first(150 * time.Second)
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, stop)
				var worked time.Duration
				err := runUntil(ctx, func(running context.Context) error {
					if !lost {
						time.Sleep(time.Minute)
						second(time.Second)
						<-running.Done()
					}
					worked = time.Since(began)
					return nil
				}, calls)
				if took := time.Since(began); err != nil || took < 150*time.Second || took > 160*time.Second || !lost && worked < 150*time.Second {
					t.Errorf("stopped after %s, worked for %s: %v", took, worked, err)
				}
				for name, sent := range map[string]bool{"first": true, "second": false} {
					cp := &infrav1.PortalControlPlane{}
					if err := store.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, cp); err != nil {
						t.Fatal(err)
					}
					if state, err := operation.Load(cp); err != nil || sent != (state.Last != nil) || sent && state.Last.JobID != "job-1" {
						t.Errorf("%s: %+v, %v", name, state.Last, err)
					}
				}
			})
		})
	}
}

// creation stores an object, and returns a function that sends its creation, which the portal answers after a time.
func creation(t *testing.T, store client.Client, calls *operation.Calls, name string) func(answered time.Duration) {
	t.Helper()
	portal, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := store.Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	state, err := operation.Load(cp)
	if err != nil {
		t.Fatal(err)
	}
	m := operation.Runner{
		Object: cp, State: &state, Writer: persist.Writer{Client: store, Live: store}, Calls: calls, Backoff: &outcome.Backoff{}, Portal: portal, Flow: "default/" + name,
	}
	return func(answered time.Duration) {
		_, _ = m.Start(t.Context(), operation.New(operation.Create, name), func(context.Context) (cloud.Created, error) {
			time.Sleep(answered)
			return cloud.Created{Job: cloud.Job{ID: "job-1"}}, nil
		})
	}
}
