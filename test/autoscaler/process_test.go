// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	"path/filepath"
	"sync"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

const loopback = "127.0.0.1"

// autoscale runs the autoscaler until the test stops it or ends. It returns after the first main loop. It fails the test if the autoscaler
// ends or hangs. Intervals are shorter than a user would set them.
func (f *fixture) autoscale() (stop func()) {
	f.Helper()
	port, err := kubeserver.FreePort(loopback)
	f.Expect(err).NotTo(HaveOccurred())
	address := kubeserver.HostPort(loopback, port)
	healthy := kubeserver.Probe("http://" + address + "/health-check")
	before, err := f.lastLoop()
	f.Expect(err).NotTo(HaveOccurred())
	autoscaler, err := kubeserver.Start(f.Context(), kubeserver.Spec{
		Name: "cluster-autoscaler",
		Path: binary,
		Args: []string{
			"--cloud-provider=clusterapi", "--clusterapi-cloud-config-authoritative",
			"--kubeconfig=" + f.kubeconfig, "--cloud-config=" + f.Box.Kubeconfig,
			"--node-group-auto-discovery=clusterapi:namespace=" + f.Namespace + ",clusterName=" + f.cluster.Name,
			"--address=" + address, "--leader-elect=false", "--v=4",
			"--scan-interval=2s", "--scale-down-unneeded-time=20s", "--unremovable-node-recheck-timeout=5s",
			"--scale-down-delay-after-add=10s", "--scale-down-delay-after-failure=5s",
			"--max-inactivity=1m", "--max-failing-time=1m",
		},
		Log:   f.logFile(),
		Ready: healthy,
	})
	f.Expect(err).NotTo(HaveOccurred())
	stop = sync.OnceFunc(func() {
		if err := healthy(context.WithoutCancel(f.Context())); err != nil {
			f.Errorf("the autoscaler ended before it was stopped: %v, see %s", err, autoscaler.Log())
		}
		autoscaler.Stop()
	})
	f.Cleanup(stop)
	f.Eventually(f.lastLoop).ShouldNot(Equal(before), "the autoscaler must complete its main loop")
	return stop
}

// lastLoop returns when the autoscaler last wrote its status, which it does at the end of each main loop.
func (f *fixture) lastLoop() (string, error) {
	status := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cluster-autoscaler-status"}
	if err := f.workload.Get(f.Context(), key, status); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return status.Annotations["cluster-autoscaler.kubernetes.io/last-updated"], nil
}

func (f *fixture) logFile() string {
	return filepath.Join(f.Box.Dir, f.Namespace+"-autoscaler.log")
}
