// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// startKubeStateMetrics runs kube-state-metrics as a ServiceAccount with the rights of the release's role, and returns the address.
func startKubeStateMetrics(t *testing.T, box *sandbox.Sandbox) string {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(readFile(t, root+"/config/metrics/kube-state-metrics/role.yaml"), role); err != nil {
		t.Fatal(err)
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "monitoring", Name: "kube-state-metrics"}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{account},
	}
	if err := box.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := box.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := clientcmd.LoadFromFile(box.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + account.Namespace + ":" + account.Name
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	address, telemetry := freeAddress(t), freeAddress(t)
	start(t, kubeserver.Spec{
		Name: "kube-state-metrics", Path: box.Binary("kube-state-metrics"),
		Args: []string{
			"--kubeconfig=" + path, "--host=127.0.0.1", "--port=" + port(address), "--telemetry-host=127.0.0.1", "--telemetry-port=" + port(telemetry),
			"--custom-resource-state-only", "--custom-resource-state-config-file=" + root + "/config/metrics/kube-state-metrics/config.yaml",
		},
		Ready: kubeserver.Probe("http://" + address + "/healthz"),
	})
	return address
}

// prometheus is a real Prometheus that scrapes every second.
type prometheus struct{ url string }

// startPrometheus runs a Prometheus that scrapes the addresses and evaluates the rules of the release.
func startPrometheus(t *testing.T, addresses ...string) prometheus {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: sandbox, honor_labels: true, static_configs: [{targets: [%s]}]}
`, absolute, strings.Join(addresses, ", "))
	path := filepath.Join(t.TempDir(), "prometheus.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	start(t, kubeserver.Spec{
		Name: "prometheus", Path: binary,
		Args:  []string{"--config.file=" + path, "--storage.tsdb.path=" + t.TempDir(), "--web.listen-address=" + address, "--log.level=warn"},
		Ready: kubeserver.Probe("http://" + address + "/-/ready"),
	})
	return prometheus{url: "http://" + address}
}

// start runs a server until the test ends. If the test fails, it logs the server's output.
func start(t *testing.T, spec kubeserver.Spec) {
	t.Helper()
	spec.Log = filepath.Join(t.TempDir(), "log")
	server, err := kubeserver.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", spec.Name, readFile(t, spec.Log))
		}
	})
}

// freeAddress returns a loopback address on which no program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }
