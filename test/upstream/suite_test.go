// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
)

// root is the checkout relative to this package.
const root = "../.."

// surroundings is the state that all specs share. The first of Ginkgo's processes creates it and passes it to the others.
type surroundings struct {
	// Kubeconfig is the path of the management cluster's kubeconfig file.
	Kubeconfig string
	// Clusterctl is the path of clusterctl's configuration file.
	Clusterctl string
	// Artifacts is the directory for files that explain a failure.
	Artifacts string
	// Variables has the variables of the cluster templates.
	Variables map[string]string
}

var (
	ctx       = context.Background()
	here      surroundings
	proxy     framework.ClusterProxy
	e2eConfig *clusterctl.E2EConfig
)

func TestUpstream(t *testing.T) {
	RegisterFailHandler(Fail)
	t.Chdir(os.Getenv("UPSTREAM_SOURCE")) // Ginkgo runs a compiled suite in the folder of the binary
	ctrl.SetLogger(logr.Discard())
	klog.SetOutput(GinkgoWriter)
	if os.Getenv("UPSTREAM_KUBECONFIG") == "" {
		endOnSignal()
	}
	RunSpecs(t, "Cluster API's own specs")
}

var _ = SynchronizedBeforeSuite(func() []byte {
	here = surround()
	text, err := json.Marshal(here)
	Expect(err).NotTo(HaveOccurred())
	return text
}, func(text []byte) {
	Expect(json.Unmarshal(text, &here)).To(Succeed())
	for name, value := range here.Variables {
		Expect(os.Setenv(name, value)).To(Succeed())
	}
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	proxy = framework.NewClusterProxy("management", here.Kubeconfig, scheme)
	e2eConfig = configure()
})

// surround starts or finds the management cluster, and writes clusterctl's configuration.
func surround() surroundings {
	artifacts, err := filepath.Abs(cmp.Or(os.Getenv("UPSTREAM_ARTIFACTS"), filepath.Join(root, "_artifacts", "upstream")))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.RemoveAll(artifacts)).To(Succeed())
	Expect(os.MkdirAll(artifacts, 0o750)).To(Succeed())
	s := surroundings{Artifacts: artifacts, Clusterctl: writeRepository(artifacts)}
	if kubeconfig := os.Getenv("UPSTREAM_KUBECONFIG"); kubeconfig != "" {
		for _, name := range []string{"KUBERNETES_VERSION", "KUBERNETES_VERSION_UPGRADE_TO"} {
			Expect(os.Getenv(name)).NotTo(BeEmpty(), "%s must name a version that the portal offers", name)
		}
		s.Kubeconfig = kubeconfig
		return s
	}
	s.Kubeconfig, s.Variables = startSandbox(artifacts)
	return s
}

// configure returns the configuration that upstream reads from a file. Upstream's reader is not used, because it requires kubeadm's
// providers.
func configure() *clusterctl.E2EConfig {
	version := os.Getenv("KUBERNETES_VERSION")
	intervals := map[string][]string{
		// On a machine under load a look at all objects takes 12 s, so five looks 15 s apart need more than upstream's 2 minutes.
		"default/wait-resource-versions-become-stable": {"5m", "15s"},
		"default/wait-resource-versions-remain-stable": {"2m", "5s"},
	}
	for _, wait := range []string{
		"controllers", "cluster", "control-plane", "worker-nodes", "machine-pool-nodes", "delete-cluster", "machine-upgrade", "machine-deployment-upgrade",
		"machine-pool-upgrade", "autoscaler", "deployment-available", "machine-deleted",
	} {
		intervals["default/wait-"+wait] = []string{"20m", "2s"}
	}
	return &clusterctl.E2EConfig{
		ManagementClusterName: "management",
		Variables: map[string]string{
			"KUBERNETES_VERSION":              version,
			"KUBERNETES_VERSION_UPGRADE_FROM": version,
			"KUBERNETES_VERSION_UPGRADE_TO":   os.Getenv("KUBERNETES_VERSION_UPGRADE_TO"),
			"AUTOSCALER_WORKLOAD":             filepath.Join("flavors", "autoscaler.yaml"),
		},
		Intervals: intervals,
	}
}
