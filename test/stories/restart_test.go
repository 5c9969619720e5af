// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// busyTime is longer than the next manager needs for its first attempts to connect, all of which fail.
const busyTime = 15 * time.Second

// TestRestartKeepsAvailable kills the manager. When the next manager starts, the portal answers slowly and at first with 429, and the API
// server of the workload cluster does not answer for a while. Conditions that are True stay True. The test of the same name in
// controllers/portalcontrolplane checks how long, in virtual time. Here, all conditions of real objects are compared, also core's.
func TestRestartKeepsAvailable(t *testing.T) {
	suite.Nightly(t)
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.Eventually(s.connected).Should(BeTrue())
	time.Sleep(time.Second) // transition times are in whole seconds
	before := s.transitions()
	s.Expect(before).To(HaveKey(ContainSubstring("PortalMachine")))

	s.Box.KillManager()
	s.strike(emulator.Fault{ID: s.Namespace + "-slow", Delay: 3 * time.Second})
	s.strike(emulator.Fault{ID: s.Namespace + "-limit", Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second, Count: 3})
	plane, err := filepath.EvalSymlinks(filepath.Join(s.Box.Dir, "workloads", "cluster-"+s.live().Spec.ClusterID))
	s.Expect(err).NotTo(HaveOccurred())
	server := s.stop("--client-ca-file=" + filepath.Join(plane, "clients.crt"))
	s.Expect(s.Box.StartManager(s.Context())).To(Succeed())
	time.Sleep(busyTime)
	s.Expect(server.Signal(syscall.SIGCONT)).To(Succeed())
	s.Eventually(s.connected).Should(BeTrue())
	s.Expect(s.transitions()).To(Equal(before), "the times at which conditions became True")

	s.scale(3)
	s.settled(3)
	s.end()
}

// transitions returns the transition time of each True condition of the provider's objects and of the Cluster.
func (s *story) transitions() map[string]time.Time {
	s.Helper()
	all := map[string]time.Time{}
	note := func(kind string, obj interface {
		client.Object
		conditions.Getter
	}, only ...string) {
		for _, c := range obj.GetConditions() {
			if c.Status == metav1.ConditionTrue && (len(only) == 0 || slices.Contains(only, c.Type)) {
				all[fmt.Sprintf("%s %s: %s", kind, obj.GetName(), c.Type)] = c.LastTransitionTime.Time
			}
		}
	}
	cluster, portalCluster, controlPlane := &clusterv1.Cluster{}, &infrav1.PortalCluster{}, &infrav1.PortalControlPlane{}
	for _, obj := range []client.Object{cluster, portalCluster, controlPlane} {
		s.Expect(s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.cluster), obj)).To(Succeed()) // all have one name
	}
	note("Cluster", cluster, clusterv1.ClusterAvailableCondition, clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition)
	note("PortalCluster", portalCluster)
	note("PortalControlPlane", controlPlane)
	claims := &infrav1.PortalMachineList{}
	s.List(claims)
	for i := range claims.Items {
		note("PortalMachine", &claims.Items[i])
	}
	return all
}

// connected reports whether the manager has connected to the workload cluster since its start, according to its log.
func (s *story) connected() bool {
	s.Helper()
	log, err := os.ReadFile(filepath.Join(s.Box.Dir, "manager.log"))
	s.Expect(err).NotTo(HaveOccurred())
	start := max(bytes.LastIndex(log, []byte(`"Starting the manager"`)), 0)
	return bytes.Contains(log[start:], fmt.Appendf(nil, `"Connected" PortalControlPlane="%s/`, s.Namespace))
}

// stop stops the process that has the argument, until SIGCONT or the end of the test.
func (s *story) stop(argument string) *os.Process {
	s.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	s.Expect(err).NotTo(HaveOccurred())
	for _, path := range processes {
		content, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(content), "\x00"), argument) {
			continue // the process has ended, or is another one
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		s.Expect(err).NotTo(HaveOccurred())
		process, err := os.FindProcess(pid)
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(process.Signal(syscall.SIGSTOP)).To(Succeed())
		s.Cleanup(func() { _ = process.Signal(syscall.SIGCONT) })
		return process
	}
	s.Fatalf("no process has the argument %s", argument)
	return nil
}
