// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// startKubeStateMetrics runs kube-state-metrics as a user with the rights of the release's role, and returns the address.
func (f *fixture) startKubeStateMetrics() string {
	f.Helper()
	const user = "kube-state-metrics"
	role := &rbacv1.ClusterRole{}
	f.Expect(yaml.UnmarshalStrict(readFile(f.T, root+"/config/metrics/kube-state-metrics/role.yaml"), role)).To(Succeed())
	f.Create(role)
	f.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	kubeconfig, err := f.Box.KubeconfigOf(user)
	f.Expect(err).NotTo(HaveOccurred())
	port, telemetry := f.freePort(), f.freePort()
	address := kubeserver.HostPort("127.0.0.1", port)
	f.run(kubeserver.Spec{
		Name: user, Path: f.Box.Binary("kube-state-metrics"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--host=127.0.0.1", fmt.Sprint("--port=", port), "--telemetry-host=127.0.0.1", fmt.Sprint("--telemetry-port=", telemetry),
			"--custom-resource-state-only", "--custom-resource-state-config-file=" + root + "/config/metrics/kube-state-metrics/config.yaml",
		},
		Ready: kubeserver.Probe("http://" + address + "/healthz"),
	})
	return address
}

// startPrometheus runs a Prometheus that scrapes the addresses every second and evaluates the rules of the release.
func (f *fixture) startPrometheus(addresses ...string) {
	f.Helper()
	absolute, err := filepath.Abs(rulesFile)
	f.Expect(err).NotTo(HaveOccurred())
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: sandbox, honor_labels: true, static_configs: [{targets: [%s]}]}
`, absolute, strings.Join(addresses, ", "))
	path := filepath.Join(f.TempDir(), "prometheus.yaml")
	f.Expect(os.WriteFile(path, []byte(config), 0o600)).To(Succeed())
	address := f.freeAddress()
	f.run(kubeserver.Spec{
		Name: "prometheus", Path: f.prometheusPath,
		Args:  []string{"--config.file=" + path, "--storage.tsdb.path=" + f.TempDir(), "--web.listen-address=" + address, "--log.level=warn"},
		Ready: kubeserver.Probe("http://" + address + "/-/ready"),
	})
	c, err := api.NewClient(api.Config{Address: "http://" + address})
	f.Expect(err).NotTo(HaveOccurred())
	f.prometheus = promv1.NewAPI(c)
}

// run runs a server until the test ends. Its log is beside those of the sandbox.
func (f *fixture) run(spec kubeserver.Spec) {
	f.Helper()
	spec.Log = filepath.Join(f.Box.Dir, spec.Name+".log")
	server, err := kubeserver.Start(f.Context(), spec)
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(server.Stop)
}

func (f *fixture) freePort() int {
	f.Helper()
	port, err := kubeserver.FreePort("127.0.0.1")
	f.Expect(err).NotTo(HaveOccurred())
	return port
}

func (f *fixture) freeAddress() string { return kubeserver.HostPort("127.0.0.1", f.freePort()) }

// finds waits until an expression has a number.
func (f *fixture) finds(expr string) {
	f.Helper()
	f.Eventually(func() error { return f.query(expr, true) }).Should(Succeed())
}

// query returns an error unless the expression has a number, either now or at any time since the start.
func (f *fixture) query(expr string, instant bool) error {
	numbers := "(" + expr + ") >= -Inf" // not NaN
	var found fmt.Stringer
	var err error
	if instant {
		found, _, _, err = f.prometheus.Query(f.Context(), numbers, time.Now())
	} else {
		found, _, _, err = f.prometheus.QueryRange(f.Context(), numbers, promv1.Range{Start: f.start, End: time.Now(), Step: time.Second})
	}
	if err == nil && found.String() == "" {
		err = fmt.Errorf("no number: %s", expr)
	}
	return err
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// unanswered returns the queries of the dashboard that find no number, each with its panel.
func (f *fixture) unanswered(d dashboard) (none []string) {
	f.Helper()
	values := []string{"$__rate_interval", "15s"} // covers enough scrapes
	fill := func(text string) string { return strings.NewReplacer(values...).Replace(text) }
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(fill(v.Query))
		f.Expect(parts).NotTo(BeNil(), "%s, variable %s: %s is not label_values(series, label)", d.name, v.Name, v.Query)
		choices, _, _, err := f.prometheus.LabelValues(f.Context(), parts[2], []string{parts[1]}, f.start, time.Now())
		if err != nil || len(choices) == 0 {
			return append(none, fmt.Sprintf("variable %s: %s offers no choice: %v", v.Name, v.Query, err))
		}
		choice := string(choices[0]) // Grafana selects the first one
		if v.IncludeAll {
			choice = v.AllValue
		}
		values = append(values, "$"+v.Name, choice)
	}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			if err := f.query(fill(target.Expr), target.Instant); err != nil {
				none = append(none, fmt.Sprintf("panel %q, query %s: %v", panel.Title, target.RefID, err))
			}
		}
	}
	return none
}

// healthyRules fails the test if Prometheus cannot evaluate a rule, or an alert is pending or firing.
func (f *fixture) healthyRules() {
	f.Helper()
	found, err := f.prometheus.Rules(f.Context(), nil)
	f.Expect(err).NotTo(HaveOccurred())
	count := 0
	for _, group := range found.Groups {
		for _, r := range group.Rules {
			count++
			switch r := r.(type) {
			case promv1.AlertingRule:
				f.Expect([]string{string(r.Health), r.State}).To(Equal([]string{"ok", "inactive"}), "rule %s: %s", r.Name, r.LastError)
			case promv1.RecordingRule:
				f.Expect(r.Health).To(BeEquivalentTo("ok"), "rule %s: %s", r.Name, r.LastError)
			}
		}
	}
	f.Expect(count).To(Equal(len(readRules(f.T))), "rules of Prometheus")
}
