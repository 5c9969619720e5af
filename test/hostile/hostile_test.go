// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
	tenant, attacker = "tenant", "attacker"
	hanging          = 30 // API servers
	// bar is how many times as long a cluster may take beside hostile ones. Waiting for a server that hangs takes no CPU time, so the suite
	// compares times of the clock. They depend on what else the machine does, so only the night runs the suite.
	bar       = 1.5
	maxMemory = 400 << 20
	// rounds is the number of tries. The load of the machine varies, but an attack that works slows down every round.
	rounds = 10
)

// fixture is a management cluster with the real manager and core.
type fixture struct {
	*testing.T
	*WithT
	*sandbox.Sandbox
	servers *servers

	mu      sync.Mutex
	largest float64 // memory of the manager, in bytes
}

// TestHostileServers checks that one namespace cannot slow down another. While 30 API servers of one namespace hang, one has 24,000 Nodes,
// one has a list without end and one has pages without end, a cluster of another namespace must be ready within 1.5 times its usual time.
// The manager's memory must stay below 400 MB.
func TestHostileServers(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	log.SetLogger(logr.Discard())
	f := newFixture(t)
	go f.weigh()
	alone := f.ready("alone")
	t.Logf("alone: %s", alone.Round(100*time.Millisecond))

	f.attack()
	var took time.Duration
	for round := range rounds {
		took = f.ready(fmt.Sprintf("round-%d", round))
		t.Logf("under attack: %s, %.1f times as long", took.Round(100*time.Millisecond), float64(took)/float64(alone))
		if float64(took) <= bar*float64(alone) {
			break
		}
	}
	if float64(took) > bar*float64(alone) {
		t.Errorf("ready in %s instead of %s: clusters of one namespace delay those of another", took, alone)
	}
	f.reported()
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("the manager used at most %.0f MB", f.largest/(1<<20))
	if f.largest == 0 || f.largest >= maxMemory {
		t.Errorf("the manager used %.0f MB of memory, want less than %d", f.largest/(1<<20), maxMemory>>20)
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	all, err := newServers()
	if err != nil {
		t.Fatal(err)
	}
	options := sandbox.Options{Dir: os.Getenv("HOSTILE_DIR"), WithoutWorkloads: true, Portal: emulator.Options{
		Workloads: all, ProviderIDs: true, RateLimit: emulator.RateLimit{PerMinute: 60_000, Burst: 1000},
		Durations: emulator.Durations{Pending: -1, Create: time.Second, Scale: time.Second, Delete: time.Second},
	}}
	for _, account := range []string{tenant, attacker} {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: account, Email: account + "@portal.invalid", Password: "of-" + account, Account: account, Role: emulator.RoleAdministrator,
		})
	}
	box := suite.StartFor(t, options)
	t.Cleanup(box.KillManager) // its passes may wait for API servers that hang
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(box.Describe(context.WithoutCancel(t.Context()), tenant, tenant))
		}
	})
	f := &fixture{T: t, WithT: suite.Patient(t), Sandbox: box, servers: all}
	f.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	for _, namespace := range []string{tenant, attacker} {
		f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		secret := f.IdentitySecret(client.ObjectKey{Namespace: namespace, Name: "portal-identity"})
		secret.StringData[infrav1.IdentityEmail] = namespace + "@portal.invalid"
		secret.StringData[infrav1.IdentityPassword] = "of-" + namespace
		f.create(secret)
	}
	return f
}

// attack creates the hostile clusters, and returns when the manager has connected to all of their API servers.
func (f *fixture) attack() {
	f.Helper()
	for i := range hanging {
		how := []manner{silent, trickle, stuck, stuck, stuck, stuck, halt, halt, halt, halt}[i%10]
		f.createCluster(attacker, fmt.Sprintf("%s-%d", how, i))
	}
	f.createCluster(attacker, string(crowd))
	f.createCluster(attacker, string(endless))
	f.createCluster(attacker, string(paged))
	f.Eventually(f.servers.met.Load).Should(BeNumerically(">=", hanging+3))
	go f.pester()
}

// pester changes the attacker's control planes all the time, so that the manager reconciles each of them again at once.
func (f *fixture) pester() {
	for i := 0; f.Context().Err() == nil; i++ {
		all := &infrav1.PortalControlPlaneList{}
		_ = f.Client.List(f.Context(), all, client.InNamespace(attacker))
		for j := range all.Items {
			change := fmt.Sprintf(`{"metadata":{"annotations":{"pestered":"%d"}}}`, i)
			_ = f.Client.Patch(f.Context(), &all.Items[j], client.RawPatch(types.MergePatchType, []byte(change)))
		}
		time.Sleep(time.Second)
	}
}

// reported checks that the conditions of the hostile clusters name the problem of each.
func (f *fixture) reported() {
	f.Helper()
	for name, reason := range map[string]string{
		string(crowd): infrav1.TooManyNodesReason, string(endless): infrav1.TooManyNodesReason, "silent-0": infrav1.ConnectionDownReason,
		string(paged): infrav1.ConnectionDownReason,
	} {
		controlPlane := &infrav1.PortalControlPlane{}
		f.Eventually(func() string {
			f.Expect(f.Client.Get(f.Context(), client.ObjectKey{Namespace: attacker, Name: name}, controlPlane)).To(Succeed())
			return conditions.GetReason(controlPlane, infrav1.ConnectedCondition)
		}).Should(Equal(reason), name)
	}
}

// ready creates three clusters of the tenant, and returns the median time until the manager has read their Nodes. It does not wait for
// core, which takes longer.
func (f *fixture) ready(name string) time.Duration {
	f.Helper()
	start := time.Now()
	left := map[string]bool{}
	for i := range 3 {
		one := fmt.Sprintf("%s-%s-%d", calm, name, i)
		f.createCluster(tenant, one)
		left[one] = true
	}
	var times []time.Duration
	f.Eventually(func() int {
		for one := range left {
			controlPlane := &infrav1.PortalControlPlane{}
			f.Expect(f.Client.Get(f.Context(), client.ObjectKey{Namespace: tenant, Name: one}, controlPlane)).To(Succeed())
			if conditions.IsTrue(controlPlane, infrav1.ConnectedCondition) {
				times = append(times, time.Since(start))
				delete(left, one)
			}
		}
		return len(left)
	}).Should(BeZero())
	slices.Sort(times)
	return times[1]
}

// weigh records the largest memory size of the manager.
func (f *fixture) weigh() {
	for f.Context().Err() == nil {
		size := resident(f.Context(), f.MetricsURL)
		f.mu.Lock()
		f.largest = max(f.largest, size)
		f.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// resident reads the memory size of a process from its metrics. It returns 0 if the metrics cannot be read.
func resident(ctx context.Context, url string) float64 {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "process_resident_memory_bytes "); found {
			size, _ := strconv.ParseFloat(value, 64)
			return size
		}
	}
	return 0
}

// createCluster creates a Cluster with one worker, and the objects that it references.
func (f *fixture) createCluster(namespace, name string) {
	f.Helper()
	o := suite.NewObjects(metav1.ObjectMeta{Namespace: namespace, Name: name}, "portal-identity")
	o.Deployment.Spec.Replicas = ptr.To[int32](1)
	for _, object := range []client.Object{o.Cluster, o.PortalCluster, o.ControlPlane, o.Bootstrap, o.Template, o.Deployment} {
		f.create(object)
	}
}

func (f *fixture) create(obj client.Object) {
	f.Helper()
	f.Expect(f.Client.Create(f.Context(), obj)).To(Succeed())
}
