// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var live = flag.Bool("live", false, "ask a real Prometheus that scrapes a sandbox (make test-dashboards builds what it needs)")

const version = "v1.36.3"

// fixture is a sandbox with a Prometheus that scrapes it.
type fixture struct {
	*suite.Fixture
	prometheusPath string
	prometheus     promv1.API
	start          time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if !*live {
		t.Skip("the flag -live is not set: run make test-dashboards")
	}
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus not found: install Debian's package prometheus")
	}
	log.SetLogger(logr.Discard())
	options := sandbox.Options{}
	options.Portal.Durations = emulator.Durations{Create: 4 * time.Second, Scale: 4 * time.Second, Delete: 2 * time.Second}
	box := suite.StartFor(t, options)
	f := &fixture{prometheusPath: path, start: time.Now()}
	f.Fixture = &suite.Fixture{T: t, WithT: suite.Patient(t), Box: box, Namespace: box.Identity.Namespace}
	f.startPrometheus(strings.TrimSuffix(strings.TrimPrefix(box.MetricsURL, "http://"), "/metrics"), f.startKubeStateMetrics())
	return f
}

// TestEveryQueryFindsData creates and scales a cluster, and then checks that every query of every panel finds data, Prometheus can evaluate
// every rule, and no alert fires. At the end it causes the alerts.
func TestEveryQueryFindsData(t *testing.T) {
	f := newFixture(t)
	f.grow()
	for _, d := range readDashboards(t) {
		f.Eventually(func() []string { return f.unanswered(d) }).Should(BeEmpty(), "queries of %s without data", d.name)
	}
	for _, name := range append(recorded(t), configured(t)...) {
		f.finds(name)
	}
	f.healthyRules()
	f.Expect(f.Box.Client.Delete(t.Context(), f.cluster("watched"))).To(Succeed())
	f.finds(`capportal_jobs_in_flight unless on () capi_portalcontrolplane_info`) // the end of the cluster's series
	f.troubles()
}

// recorded returns the names of the series that the rules record.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range readRules(t) {
		if r.Record != "" {
			names = append(names, r.Record)
		}
	}
	return names
}

// configured returns the names of the series in the configuration of kube-state-metrics.
func configured(t *testing.T) (names []string) {
	t.Helper()
	var config struct {
		Spec struct {
			Resources []struct {
				MetricNamePrefix string
				Metrics          []struct{ Name string }
			}
		}
	}
	if err := yaml.Unmarshal(readFile(t, root+"/config/metrics/kube-state-metrics/config.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	for _, r := range config.Spec.Resources {
		for _, m := range r.Metrics {
			names = append(names, r.MetricNamePrefix+"_"+m.Name)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %v", names)
	}
	return names
}

// grow creates a cluster with one worker, scales it to two, and adds a MachinePool without replicas.
func (f *fixture) grow() {
	f.Helper()
	f.create("watched", f.Box.Identity.Name, "")
	f.AwaitReady(f.cluster("watched"), 1)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "watched-workers"}}
	suite.Change(f.Fixture, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](2) })
	f.AwaitReady(f.cluster("watched"), 2)
	templates := &infrav1.PortalMachineTemplateList{}
	f.List(templates)
	machinePool, pool := suite.NewPool(metav1.ObjectMeta{Namespace: f.Namespace, Name: "pool"}, "watched", version, 0, templates.Items[0].Spec.Template.Spec)
	f.Create(machinePool)
	f.Create(pool)
}

func (f *fixture) cluster(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

// create creates a Cluster with one worker and that identity. If clusterID is not empty, the Cluster adopts that portal cluster.
func (f *fixture) create(name, identity, clusterID string) {
	f.Helper()
	objects, err := f.Box.GenerateCluster(f.Context(), client.ObjectKey{Namespace: f.Namespace, Name: name},
		"--kubernetes-version", version, "--control-plane-machine-count", "1", "--worker-machine-count", "1")
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		switch object.GetKind() {
		case "PortalCluster":
			f.Expect(unstructured.SetNestedField(object.Object, identity, "spec", "identityRef", "name")).To(Succeed())
		case "PortalControlPlane":
			if clusterID != "" {
				f.Expect(unstructured.SetNestedField(object.Object, clusterID, "spec", "clusterID")).To(Succeed())
			}
		}
		f.Create(object)
	}
}

// lock creates an identity Secret with one key changed.
func (f *fixture) lock(name, key, value string) {
	f.Helper()
	secret := f.Box.IdentitySecret(client.ObjectKey{Namespace: f.Namespace, Name: name})
	secret.StringData[key] = value
	f.Create(secret)
}

// troubles causes the alerts, except those that take half an hour, and waits until each is pending or firing. The cases in rules.test.yaml
// are invented. This test shows that a real manager reports the series that the rules need.
func (f *fixture) troubles() {
	f.Helper()
	for _, trouble := range []struct {
		alert string
		cause func()
	}{
		{"PortalLoginRefused", func() {
			f.lock("locked", infrav1.IdentityPassword, "not the password")
			f.create("locked", "locked", "")
		}},
		{"PortalUnreachable", func() {
			f.lock("away", infrav1.IdentityBaseURL, "https://"+f.freeAddress())
			f.create("away", "away", "")
		}},
		{"PortalClusterGone", func() { f.create("gone", f.Box.Identity.Name, "cluster-that-does-not-exist") }},
		{"PortalOutcomeUnknown", func() {
			f.Expect(f.Box.Portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, After: true, Cut: true})).To(Succeed())
			f.create("lost", f.Box.Identity.Name, "")
		}},
		{"PortalRateLimited", func() {
			f.Expect(f.Box.Portal.Inject(emulator.Fault{Count: 3, Status: 429, RetryAfter: time.Second})).To(Succeed())
			f.create("limited", f.Box.Identity.Name, "")
		}},
		{"PortalNoActiveManager", f.Box.StopManager},
	} {
		trouble.cause()
		f.finds(`ALERTS{alertname="` + trouble.alert + `"}`)
	}
}
