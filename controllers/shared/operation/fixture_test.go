// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// crash ends a manager: its memory is lost, and the goroutine that it hits goes no further.
type crash struct{}

// fixture is a management cluster with one object, and a portal. Managers come and go.
type fixture struct {
	*testing.T
	work   work
	portal *emulator.Portal
	store  client.Client
	id     string // of the portal cluster that was there before
	calls  *Calls // of the present manager

	writes  atomic.Int64 // of all managers, also those of late answers
	crashAt int          // the write that ends a manager, counted from 1; 0: none
	stored  bool
	refused bool // instead of a crash, the API server refuses the write once
}

var long = emulator.Durations{Create: 4 * time.Minute, Scale: 3 * time.Minute, Upgrade: 8 * time.Minute, Delete: 2 * time.Minute}

// newFixture prepares the objects and resources that the work needs. The faults start after that.
func newFixture(t *testing.T, w work, options emulator.Options, faults ...emulator.Fault) *fixture {
	t.Helper()
	options.Seed, options.Durations = 1, long
	options.Users = []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}}
	portal, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	f := &fixture{T: t, work: w, portal: portal, calls: &Calls{}}
	scheme := schemes.Of(t, infrav1.AddToScheme)
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "story"}}
	cp.Spec.ClusterName = "story-1"
	State{Record: Record{Name: "story-1", Size: SizeUnknown}}.Put(cp)
	if w.Type.Repeatable() {
		f.existing()
		State{Record: Record{Size: 2, Version: "v1.35.6"}}.Put(cp)
	}
	f.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(cp).WithInterceptorFuncs(interceptor.Funcs{Patch: f.patch}).Build()
	for _, f := range faults {
		f.Method, f.Path = w.method, w.route
		if err := portal.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fixture) client() *cloud.Client {
	f.Helper()
	portal, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "secret", Transport: f.portal.Transport()})
	if err != nil {
		f.Fatal(err)
	}
	return portal
}

// existing creates the portal cluster that the work is about.
func (f *fixture) existing() {
	f.Helper()
	if _, err := f.client().CreateCluster(f.Context(), clusterRequest(f.client(), "story-1")); err != nil {
		f.Fatal(err)
	}
	time.Sleep(long.Create + time.Minute)
	f.id = f.portal.Clusters()[0].ID
}

func clusterRequest(portal *cloud.Client, name string) cloud.CreateClusterRequest {
	request := cloud.CreateClusterRequest{
		Name: name, Description: "story", ZoneID: "z", ServiceOfferingID: "s", Size: 2, ControlNodes: 1, SSHKeyPair: "k",
		KubernetesVersionID: versionID(portal, "v1.35.6"),
	}
	if vpcs, err := portal.VPCs(context.Background(), "default"); err == nil && len(vpcs) > 0 {
		request.VPCID = vpcs[0].ID
	}
	return request
}

func versionID(portal *cloud.Client, name string) string {
	versions, err := portal.KubernetesVersions(context.Background())
	if err != nil {
		return "none"
	}
	for _, v := range versions {
		if v.SemanticVersion == name {
			return v.ID
		}
	}
	return "none"
}

// patch intercepts every write. The chosen one is the manager's last, stored or not.
func (f *fixture) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if f.writes.Add(1) != int64(f.crashAt) {
		return c.Patch(ctx, obj, patch, opts...)
	}
	if f.refused {
		return errors.New("the server is away for a moment")
	}
	if f.stored {
		if err := c.Patch(ctx, obj, patch, opts...); err != nil {
			return err
		}
	}
	panic(crash{})
}

// manager runs passes over the object until the work is done, is held, or the manager crashes.
func (f *fixture) manager(passes int) (last outcome.Outcome, crashed bool) {
	f.Helper()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
			crashed = true
		}
	}()
	portal, backoff := f.client(), &outcome.Backoff{}
	f.calls = &Calls{}
	for range passes {
		cp := f.object()
		if f.work.reached(cp) {
			return outcome.Outcome{}, false
		}
		last = f.pass(f.runner(cp, portal, backoff))
		if last.Reason == infrav1.OutcomeUnknownReason {
			return last, false
		}
		time.Sleep(max(last.RequeueAfter, time.Second)) // virtual
	}
	return last, false
}

// runner is a pass of a manager over the object.
func (f *fixture) runner(cp *infrav1.PortalControlPlane, portal *cloud.Client, backoff *outcome.Backoff) Runner {
	f.Helper()
	state, err := Load(cp)
	if err != nil {
		f.Fatal(err)
	}
	return Runner{
		Object: cp, State: &state, Writer: persist.Writer{Client: f.store, Live: f.store}, Calls: f.calls, Backoff: backoff, Portal: portal, Flow: "default/story", Cluster: f.id,
	}
}

// pass is what a controller does: it polls what is in flight, ends a lost operation when its effect is seen, and starts what is missing.
func (f *fixture) pass(m Runner) outcome.Outcome {
	f.Helper()
	if m.State.Op() != nil {
		o := m.Poll(f.Context())
		op := m.State.Op()
		switch {
		case !op.Lost() || !op.Type.Repeatable():
			return o
		case f.work.seen(f):
			return m.Finish(f.Context(), Succeeded, "")
		}
	}
	op := f.next(f.object())
	o, err := m.Start(f.Context(), op, f.send(m))
	if f.work.Type == Delete && cloud.IsNotFound(err) { // a controller lets the object go
		cp := f.object()
		op.Result = Succeeded
		putLast(cp, op)
		if err := f.store.Update(f.Context(), cp); err != nil {
			f.Fatal(err)
		}
	}
	return o
}

func (f *fixture) object() *infrav1.PortalControlPlane {
	f.Helper()
	cp := &infrav1.PortalControlPlane{}
	if err := f.store.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "story"}, cp); err != nil {
		f.Fatal(err)
	}
	return cp
}

func (f *fixture) operation() *Operation {
	f.Helper()
	op, err := lastOf(f.object())
	if err != nil {
		f.Fatal(err)
	}
	return op
}

// jobs counts the jobs that the portal started for the work, and the requests that it got for it.
func (f *fixture) jobs() (jobs, requests int) {
	for _, e := range f.portal.RequestLog() {
		switch {
		case e.Method == f.work.method && e.Route == f.work.route:
			requests++
		case e.Object == "job" && e.To == "pending" && strings.HasPrefix(e.Detail, f.work.job):
			jobs++
		}
	}
	return jobs, requests
}
