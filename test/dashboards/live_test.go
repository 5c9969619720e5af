// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// patience is how long one step may take. It is many times what an idle machine needs.
const patience = 3 * time.Minute

// fixture is a sandbox with a Prometheus that scrapes it.
type fixture struct {
	*testing.T
	box *sandbox.Sandbox
	prometheus
	start time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if !*live {
		t.Skip("the flag -live is not set: run make test-dashboards")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus not found: install Debian's package prometheus")
	}
	log.SetLogger(logr.Discard())
	options := sandbox.Options{}
	options.Portal.Durations = emulator.Durations{Create: 4 * time.Second, Scale: 4 * time.Second, Delete: 2 * time.Second}
	box := suite.StartFor(t, options)
	manager := strings.TrimSuffix(strings.TrimPrefix(box.MetricsURL, "http://"), "/metrics")
	f := &fixture{T: t, box: box, start: time.Now()}
	f.prometheus = startPrometheus(t, manager, startKubeStateMetrics(t, box))
	return f
}

// eventually waits until missing returns "".
func (f *fixture) eventually(what string, missing func() string) {
	f.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		if last = missing(); last == "" {
			return
		}
	}
	f.Fatalf("timed out waiting for %s. Missing:\n%s", what, last)
}

// TestEveryQueryFindsData creates and scales a cluster, and then checks that every query of every panel finds data, Prometheus can evaluate
// every rule, and no alert fires. At the end it causes the alerts.
func TestEveryQueryFindsData(t *testing.T) {
	f := newFixture(t)
	f.grow()
	dashboards := readDashboards(t)
	asked := 0
	f.eventually("an answer to every query", func() string {
		var none []string
		none, asked = f.unanswered(t.Context(), dashboards, f.start)
		return strings.Join(none, "\n")
	})
	t.Logf("%d queries of %d dashboards found data", asked, len(dashboards))
	for _, name := range append(recorded(t), configured(t)...) {
		f.eventually("the series "+name, func() string { return f.none(name) })
	}
	f.healthyRules()
	f.shrink()
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

// none returns a message if the expression finds no number, and "" if it finds one.
func (f *fixture) none(expr string) string {
	found, err := f.query(f.Context(), expr, true, f.start)
	if err != nil || len(found) == 0 {
		return fmt.Sprintf("%s: %d series, %v", expr, len(found), err)
	}
	return ""
}

// grow creates a cluster with one worker, scales it to two, and adds a MachinePool without replicas.
func (f *fixture) grow() {
	f.Helper()
	key := client.ObjectKey{Namespace: f.box.Identity.Namespace, Name: "watched"}
	f.create(key.Name, f.box.Identity.Name, "")
	f.eventually("a cluster with one worker", func() string { return f.unready(key, 1) })
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-workers"}}
	if err := f.box.Client.Patch(f.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))); err != nil {
		f.Fatal(err)
	}
	f.eventually("a cluster with two workers", func() string { return f.unready(key, 2) })
	f.addPool(key)
}

// addPool adds a MachinePool without replicas to the Cluster.
func (f *fixture) addPool(key client.ObjectKey) {
	f.Helper()
	templates := &infrav1.PortalMachineTemplateList{}
	if err := f.box.Client.List(f.Context(), templates, client.InNamespace(key.Namespace)); err != nil {
		f.Fatal(err)
	}
	named := metav1.ObjectMeta{Namespace: key.Namespace, Name: "pool"}
	machinePool, pool := suite.NewPool(named, key.Name, "v1.36.3", 0, templates.Items[0].Spec.Template.Spec)
	for _, object := range []client.Object{machinePool, pool} {
		if err := f.box.Client.Create(f.Context(), object); err != nil {
			f.Fatal(err)
		}
	}
}

// unready describes what is missing until the Cluster is available and has count Machines, all Ready.
func (f *fixture) unready(key client.ObjectKey, count int) string {
	cluster, machines := &clusterv1.Cluster{}, &clusterv1.MachineList{}
	if err := f.box.Client.Get(f.Context(), key, cluster); err != nil {
		return err.Error()
	}
	if err := f.box.Client.List(f.Context(), machines, client.InNamespace(key.Namespace)); err != nil {
		return err.Error()
	}
	ready := 0
	for _, machine := range machines.Items {
		if meta.IsStatusConditionTrue(machine.GetConditions(), clusterv1.MachineReadyCondition) {
			ready++
		}
	}
	if !meta.IsStatusConditionTrue(cluster.GetConditions(), clusterv1.ClusterAvailableCondition) || ready != count || len(machines.Items) != count {
		return fmt.Sprintf("%d of %d Machines are Ready; Cluster: %v", ready, len(machines.Items), cluster.GetConditions())
	}
	return ""
}

// healthyRules fails the test if Prometheus cannot evaluate a rule, or an alert is pending or firing.
func (f *fixture) healthyRules() {
	f.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
				State                   string // of an alert
			}
		}
	}
	if err := f.ask(f.Context(), "rules", nil, &data); err != nil {
		f.Fatal(err)
	}
	count := 0
	for _, group := range data.Groups {
		for _, r := range group.Rules {
			if count++; r.Health != "ok" || !slices.Contains([]string{"", "inactive"}, r.State) {
				f.Errorf("rule %s: health %s, state %s, %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
	}
	if want := len(readRules(f.T)); count != want {
		f.Errorf("Prometheus has %d rules: want %d", count, want)
	}
}

// shrink deletes the cluster, and waits until the series of its objects have ended.
func (f *fixture) shrink() {
	f.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.box.Identity.Namespace, Name: "watched"}}
	if err := f.box.Client.Delete(f.Context(), cluster); err != nil {
		f.Fatal(err)
	}
	f.eventually("the end of the cluster's series", func() string {
		return f.none(`capportal_jobs_in_flight unless on () capi_portalcontrolplane_info`)
	})
}
