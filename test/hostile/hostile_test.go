// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	hanging = 30 // API servers
	// bar is how many times as long a cluster may take beside hostile ones. Waiting for a server that hangs takes no CPU time, so the suite
	// compares times of the clock. They depend on what else the machine does, so only the night runs the suite.
	bar       = 1.5
	maxMemory = 400 << 20
	// rounds is the number of tries. The load of the machine varies, but an attack that works slows down every round.
	rounds = 10
)

// TestHostileServers checks that one namespace cannot slow down another. While 30 API servers of one namespace hang, one has 24,000 Nodes,
// one has a list without end and one has pages without end, a cluster of another namespace must be ready within 1.5 times its usual time.
// The manager's memory must stay below 400 MB.
func TestHostileServers(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	log.SetLogger(logr.Discard())
	all := &servers{all: map[string]*server{}}
	options := sandbox.Options{Dir: os.Getenv("HOSTILE_DIR"), WithoutWorkloads: true, Portal: emulator.Options{
		Workloads: all, ProviderIDs: true, RateLimit: emulator.RateLimit{PerMinute: 60_000, Burst: 1000},
		Durations: emulator.Durations{Pending: -1, Create: time.Second, Scale: time.Second, Delete: time.Second},
		Users:     []emulator.User{suite.User("tenant", 0), suite.User("attacker", 1)},
	}}
	box := suite.StartFor(t, options)
	t.Cleanup(box.KillManager) // its passes may wait for API servers that hang
	tenant, attacker := newFixture(t, box, options.Portal.Users[0]), newFixture(t, box, options.Portal.Users[1])

	var largest atomic.Int64
	go tenant.weigh(&largest)
	alone := tenant.ready("alone")
	t.Logf("alone: %s", alone.Round(100*time.Millisecond))
	attacker.attack(all)
	took := time.Duration(0)
	for round := range rounds {
		took = tenant.ready(fmt.Sprintf("round-%d", round))
		t.Logf("under attack: %s, %.1f times as long", took.Round(100*time.Millisecond), float64(took)/float64(alone))
		if float64(took) <= bar*float64(alone) {
			break
		}
	}
	if float64(took) > bar*float64(alone) {
		t.Errorf("ready in %s instead of %s: clusters of one namespace delay those of another", took, alone)
	}
	for name, reason := range map[string]string{
		string(crowd): infrav1.TooManyNodesReason, string(endless): infrav1.TooManyNodesReason, "silent-0": infrav1.ConnectionDownReason,
		string(paged): infrav1.ConnectionDownReason,
	} {
		attacker.Eventually(func() string { return conditions.GetReason(attacker.controlPlane(name), infrav1.ConnectedCondition) }).Should(Equal(reason), name)
	}
	t.Logf("the manager used at most %d MB", largest.Load()>>20)
	if largest.Load() == 0 || largest.Load() >= maxMemory {
		t.Errorf("the manager used %d MB of memory, want less than %d", largest.Load()>>20, maxMemory>>20)
	}
}

// fixture is a user with a namespace.
type fixture struct{ *suite.Fixture }

func newFixture(t *testing.T, box *sandbox.Sandbox, user emulator.User) fixture {
	t.Helper()
	f := fixture{suite.NewFixture(t, box, user)}
	f.Create(f.IdentitySecret("portal-identity"))
	return f
}

// attack creates the hostile clusters, and returns when the manager has connected to all of their API servers. From then on, it changes the
// control planes all the time, so that the manager reconciles each of them again at once.
func (f fixture) attack(all *servers) {
	f.Helper()
	for i := range hanging {
		how := []manner{silent, trickle, stuck, stuck, stuck, stuck, halt, halt, halt, halt}[i%10]
		f.createCluster(fmt.Sprintf("%s-%d", how, i))
	}
	for _, how := range []manner{crowd, endless, paged} {
		f.createCluster(string(how))
	}
	f.Eventually(all.met.Load).Should(BeNumerically(">=", hanging+3))
	go func() {
		for i := 0; f.Context().Err() == nil; i++ {
			all := &infrav1.PortalControlPlaneList{}
			_ = f.Box.Client.List(f.Context(), all, client.InNamespace(f.Namespace))
			for j := range all.Items {
				change := fmt.Sprintf(`{"metadata":{"annotations":{"pestered":"%d"}}}`, i)
				_ = f.Box.Client.Patch(f.Context(), &all.Items[j], client.RawPatch(types.MergePatchType, []byte(change)))
			}
			time.Sleep(time.Second)
		}
	}()
}

// ready creates three clusters, and returns the median time until the manager has read their Nodes. It does not wait for core, which takes
// longer.
func (f fixture) ready(name string) time.Duration {
	f.Helper()
	start := time.Now()
	for i := range 3 {
		f.createCluster(fmt.Sprintf("%s-%s-%d", calm, name, i))
	}
	f.WithT.Eventually(func() (connected int) {
		for i := range 3 {
			if conditions.IsTrue(f.controlPlane(fmt.Sprintf("%s-%s-%d", calm, name, i)), infrav1.ConnectedCondition) {
				connected++
			}
		}
		return connected
	}).WithPolling(100 * time.Millisecond).Should(BeNumerically(">=", 2))
	return time.Since(start)
}

func (f fixture) controlPlane(name string) *infrav1.PortalControlPlane {
	f.Helper()
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	f.Get(controlPlane)
	return controlPlane
}

// createCluster creates a Cluster with one worker, and the objects that it references.
func (f fixture) createCluster(name string) {
	f.Helper()
	o := suite.NewObjects(metav1.ObjectMeta{Namespace: f.Namespace, Name: name}, "portal-identity")
	o.Deployment.Spec.Replicas = ptr.To[int32](1)
	for _, object := range []client.Object{o.Cluster, o.PortalCluster, o.ControlPlane, o.Bootstrap, o.Template, o.Deployment} {
		f.Create(object)
	}
}

var resident = regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`)

// weigh records the largest memory size of the manager, which is in its metrics.
func (f fixture) weigh(largest *atomic.Int64) {
	for ; f.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(f.Box.MetricsURL)
		if err != nil {
			continue
		}
		metrics, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if found := resident.FindSubmatch(metrics); found != nil {
			size, _ := strconv.ParseFloat(string(found[1]), 64)
			largest.Store(max(largest.Load(), int64(size)))
		}
	}
}
