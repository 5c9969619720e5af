// SPDX-License-Identifier: Apache-2.0

package creation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/jobs"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// crash ends a manager: everything it holds in memory is lost, the goroutine that it hit goes no further.
type crash struct{}

// bench is a management cluster with one object, and a portal. Managers come and go.
type bench struct {
	t      *testing.T
	portal *emulator.Portal
	store  client.Client

	writes   int // of all managers
	crashAt  int // the write that ends a manager, counted from 1; 0: none
	stored   bool
	conflict bool // instead of a crash, somebody else has written the object
}

func newBench(t *testing.T) *bench {
	t.Helper()
	portal, err := emulator.New(emulator.Options{
		Seed:  1,
		Users: []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, portal: portal}
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "story"}}
	cp.Spec.ClusterName = "story-1"
	b.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(cp).WithInterceptorFuncs(interceptor.Funcs{Patch: b.patch}).Build()
	return b
}

// patch is every write; the chosen one is the manager's last, done or not.
func (b *bench) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	b.writes++
	if b.writes != b.crashAt {
		return c.Patch(ctx, obj, patch, opts...)
	}
	if b.conflict {
		return errors.New("the server is away for a moment")
	}
	if b.stored {
		if err := c.Patch(ctx, obj, patch, opts...); err != nil {
			return err
		}
	}
	panic(crash{})
}

// manager runs passes over the object until it is done, holds, or crashes.
func (b *bench) manager(passes int) (last outcome.Outcome, crashed bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
			crashed = true
		}
	}()
	portal, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "secret", Transport: b.portal.Transport()})
	if err != nil {
		b.t.Fatal(err)
	}
	m := Machinery{Writer: journal.Writer{Client: b.store, Live: b.store}, Jobs: &jobs.Follower{}, Backoff: &outcome.Backoff{}, Slots: &Slots{}}
	for range passes {
		cp := b.controlPlane()
		if cp.Spec.ClusterID != "" {
			return outcome.Outcome{}, false
		}
		last = m.Step(b.t.Context(), creationOf(cp, portal))
		if last.Kind == outcome.Hold {
			return last, false
		}
		time.Sleep(max(last.After, time.Second)) // virtual
	}
	return last, false
}

func creationOf(cp *infrav1.PortalControlPlane, portal *cloud.Client) Creation {
	return Creation{
		Object: cp, Portal: portal, Type: journal.Create, Noun: "cluster", Target: cp.Spec.ClusterName,
		Flow: "default/story", Attempt: "1", Reason: infrav1.CreatingReason, WayOut: "set spec.clusterID to its id",
		Call: func(ctx context.Context) (cloud.Created, error) {
			job, err := portal.CreateCluster(ctx, cloud.CreateClusterRequest{
				Name: cp.Spec.ClusterName, Description: "story", ZoneID: "z", KubernetesVersionID: versionID(portal), ServiceOfferingID: "s",
				Size: 2, ControlNodes: 1, VPCID: vpcID(portal), SSHKeyPair: "k",
			})
			return cloud.Created{Job: job}, err
		},
		Find: func(ctx context.Context) (string, error) {
			found, err := portal.FindClusters(ctx, cp.Spec.ClusterName)
			if err != nil || len(found) != 1 {
				return "", err
			}
			return found[0].ID, nil
		},
		Created: func(id string) { cp.Spec.ClusterID = id },
		Failed:  func() { cp.Spec.ClusterName += "x" },
	}
}

func versionID(portal *cloud.Client) string {
	versions, err := portal.KubernetesVersions(context.Background())
	if err != nil || len(versions) == 0 {
		return "none"
	}
	return versions[0].ID
}

func vpcID(portal *cloud.Client) string {
	vpcs, err := portal.VPCs(context.Background(), "default")
	if err != nil || len(vpcs) == 0 {
		return "none"
	}
	return vpcs[0].ID
}

func (b *bench) controlPlane() *infrav1.PortalControlPlane {
	b.t.Helper()
	cp := &infrav1.PortalControlPlane{}
	if err := b.store.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: "story"}, cp); err != nil {
		b.t.Fatal(err)
	}
	return cp
}

// creates counts the create requests that reached the portal.
func (b *bench) creates() (n int) {
	for _, e := range b.portal.Journal() {
		if e.Method == "POST" && e.Route == "/kubernetes-clusters" {
			n++
		}
	}
	return n
}

// never checks what must hold whatever happened: no second create, and no cluster that nobody knows of.
func (b *bench) never(last outcome.Outcome) {
	b.t.Helper()
	cp, clusters := b.controlPlane(), b.portal.Clusters()
	if b.creates() > 1 || len(clusters) > 1 {
		b.t.Errorf("%d create requests, %d clusters", b.creates(), len(clusters))
	}
	op, err := journal.Load(cp)
	switch {
	case err != nil:
		b.t.Error(err)
	case len(clusters) == 1 && cp.Spec.ClusterID != clusters[0].ID && (op == nil || last.Reason != infrav1.OutcomeUnknownReason):
		b.t.Errorf("cluster %s is lost: id %q, operation %+v, %+v", clusters[0].Name, cp.Spec.ClusterID, op, last)
	case len(clusters) == 0 && cp.Spec.ClusterID != "":
		b.t.Errorf("id %q of a cluster that is not there", cp.Spec.ClusterID)
	}
}

// TestCrashAtEveryWrite ends the manager at each of its writes, before or after it is stored, and starts another.
func TestCrashAtEveryWrite(t *testing.T) {
	unknown := 0
	for crashAt := 1; crashAt <= 6; crashAt++ {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d stored %v", crashAt, stored), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					defer b.portal.Close()
					b.crashAt, b.stored = crashAt, stored
					last, crashed := b.manager(30)
					if crashed {
						b.crashAt = 0
						last, _ = b.manager(30)
					}
					b.never(last)
					if last.Reason == infrav1.OutcomeUnknownReason {
						unknown++
					}
				})
			})
		}
	}
	if unknown == 0 {
		t.Error("no crash left the outcome unknown: the test does not reach the dangerous moment")
	}
}

// TestWritesThatFailOnce has the API server refuse each write once: nothing may be lost, nothing unknown.
func TestWritesThatFailOnce(t *testing.T) {
	for failAt := 1; failAt <= 4; failAt++ {
		t.Run(fmt.Sprintf("write %d", failAt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.portal.Close()
				b.crashAt, b.conflict = failAt, true
				last, _ := b.manager(60)
				b.never(last)
				if cp := b.controlPlane(); cp.Spec.ClusterID == "" {
					t.Errorf("not created: %+v", last)
				}
			})
		})
	}
}

// TestPortalFaults spoils the create call, and its job, in every way.
func TestPortalFaults(t *testing.T) {
	create := emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1}
	with := func(change func(*emulator.Fault)) emulator.Fault {
		f := create
		change(&f)
		return f
	}
	tests := map[string]struct {
		fault   emulator.Fault
		reason  string // of the last outcome; empty: created in the end
		creates int
	}{
		"cut before the work":          {with(func(f *emulator.Fault) { f.Cut = true }), infrav1.OutcomeUnknownReason, 1},
		"cut after the work":           {with(func(f *emulator.Fault) { f.Cut, f.After = true, true }), infrav1.OutcomeUnknownReason, 1},
		"answer truncated":             {with(func(f *emulator.Fault) { f.Body = emulator.BodyTruncated }), infrav1.OutcomeUnknownReason, 1},
		"answer is a page":             {with(func(f *emulator.Fault) { f.Body = emulator.BodyHTML }), infrav1.OutcomeUnknownReason, 1},
		"answer later than the client": {with(func(f *emulator.Fault) { f.Delay, f.After = 2*time.Minute, true }), infrav1.OutcomeUnknownReason, 1},
		"500 without the error shape":  {with(func(f *emulator.Fault) { f.Status, f.Body = 500, emulator.BodyHTML }), infrav1.OutcomeUnknownReason, 1},
		"500 after the work":           {with(func(f *emulator.Fault) { f.Status, f.After = 500, true }), infrav1.OutcomeUnknownReason, 1},
		"job forgotten":                {with(func(f *emulator.Fault) { f.Job = emulator.JobForgotten }), infrav1.OutcomeUnknownReason, 1},
		"job without id":               {with(func(f *emulator.Fault) { f.Job = emulator.JobWithoutID }), infrav1.OutcomeUnknownReason, 1},
		"maintenance":                  {with(func(f *emulator.Fault) { f.Status = 503 }), "", 2},
		"rate limited":                 {with(func(f *emulator.Fault) { f.Code = "RATE_LIMITED" }), "", 2},
		"busy":                         {with(func(f *emulator.Fault) { f.Code = "RESOURCE_BUSY" }), "", 2},
		"quota":                        {with(func(f *emulator.Fault) { f.Code = "QUOTA_EXCEEDED" }), infrav1.QuotaExceededReason, 1},
		"token revoked":                {with(func(f *emulator.Fault) { f.RevokeToken = true }), "", 2},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.portal.Close()
				if err := b.portal.Inject(test.fault); err != nil {
					t.Fatal(err)
				}
				last, _ := b.manager(60)
				if last.Reason != test.reason || b.creates() != test.creates {
					t.Errorf("reason %q after %d creates, want %q after %d: %s", last.Reason, b.creates(), test.reason, test.creates, last.Message)
				}
				if test.reason == infrav1.OutcomeUnknownReason && !strings.Contains(last.Message, "set spec.clusterID to its id") {
					t.Errorf("no way out: %s", last.Message)
				}
				if len(b.portal.Clusters()) > 1 {
					t.Error("two clusters")
				}
			})
		})
	}
}

// TestFoundByName asks the portal for the cluster by its name, where the portal answers that.
func TestFoundByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.portal.Close()
		portal, err := emulator.New(emulator.Options{ListClusters: true, Seed: 1, Users: []emulator.User{{Email: "a@portal.example", Password: "secret"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer portal.Close()
		b.portal = portal
		if err := portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, Cut: true, After: true}); err != nil {
			t.Fatal(err)
		}
		last, _ := b.manager(10)
		if cp := b.controlPlane(); cp.Spec.ClusterID != portal.Clusters()[0].ID || b.creates() != 1 {
			t.Errorf("not adopted: id %q, %d creates, %+v", cp.Spec.ClusterID, b.creates(), last)
		}
	})
}

// TestFailedJobTakesAnotherName: a record may remain under the first.
func TestFailedJobTakesAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.portal.Close()
		if err := b.portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, Job: emulator.JobFailsLate, JobCode: "INSUFFICIENT_CAPACITY"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 20 { // capacity is a Hold for a person to see, and is tried again
			b.manager(10)
			time.Sleep(20 * time.Second)
		}
		cp := b.controlPlane()
		if cp.Spec.ClusterName != "story-1x" || cp.Spec.ClusterID == "" || b.creates() != 2 {
			t.Errorf("name %q id %q after %d creates in %s", cp.Spec.ClusterName, cp.Spec.ClusterID, b.creates(), time.Since(start))
		}
	})
}
