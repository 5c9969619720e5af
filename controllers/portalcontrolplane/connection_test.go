// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// apiServer is an API server that a kubeconfig may lead to. Package workload tests how real ones are classified.
type apiServer struct {
	url    string
	access workload.Health
	hits   int // connections that passes have asked for
}

// apiServers are those of all tests, by URL.
var apiServers = map[string]*apiServer{}

func newAPIServer(access workload.Health) *apiServer {
	s := &apiServer{url: fmt.Sprintf("https://%d.example:6443", len(apiServers)), access: access}
	apiServers[s.url] = s
	return s
}

// kubeconfig leads to the server with the user's part.
func (s *apiServer) kubeconfig(user string) string {
	return kubeconfigs.For("server: '"+s.url+"'", user)
}

// connections are those of a manager, and implement access.Workloads. An API server that is not an apiServer answers.
type connections struct {
	connection
	kubeconfig string // of the newest connection
	opened     int
	dropped    []client.ObjectKey
}

func (w *connections) Ensure(_ client.ObjectKey, content []byte) access.Connection {
	if w.kubeconfig != string(content) {
		w.kubeconfig = string(content)
		w.opened++
	}
	one := w.connection
	config, err := kubeconfig.RESTConfig(content)
	if err != nil {
		one.access = workload.Unusable
		return &one
	}
	if server := apiServers[config.Host]; server != nil {
		server.hits++
		one.access = server.access
	}
	return &one
}

func (w *connections) Known(key client.ObjectKey, digest string) access.Connection {
	if kubeconfig.Digest([]byte(w.kubeconfig)) != digest {
		return nil
	}
	return w.Ensure(key, []byte(w.kubeconfig))
}

func (w *connections) Drop(key client.ObjectKey) { w.dropped = append(w.dropped, key) }

func (*connections) Source() source.Source { return nil }

// connection is a connection to a workload cluster whose API server is a client.
type connection struct {
	client  client.Client
	access  workload.Health
	version func(question string) string
	behind  time.Duration
}

func (c *connection) Client() client.Client          { return c.client }
func (c *connection) Health() workload.Health        { return c.access }
func (c *connection) Version(question string) string { return c.version(question) }
func (c *connection) ClockBehind() time.Duration     { return c.behind }

func (c *connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

// connect runs the steps up to the connection, as a pass does.
func (f *fixture) connect() *scope {
	f.Helper()
	s := f.scope()
	s.way = access.Way{}
	for _, step := range f.manager.steps()[:4] {
		s.outcomes[step.condition] = step.run(f.Context(), s)
		if o := s.outcomes[step.condition]; o.Kind == outcome.Failed {
			f.Fatal(o.Err)
		}
	}
	f.must(f.manager.patchStatus(f.Context(), s, s.ControlPlane.Status.DeepCopy()))
	return s
}

// stored is the kubeconfig in the Secret.
func (f *fixture) stored() string {
	f.Helper()
	return string(f.secret().Data["value"])
}

// storedIs reports whether the Secret holds the kubeconfig in its minimal form.
func (f *fixture) storedIs(content string) bool {
	f.Helper()
	minimal, err := kubeconfig.Minimal([]byte(content))
	f.must(err)
	return f.stored() == string(minimal)
}

// fetches counts the requests for the kubeconfig.
func (f *fixture) fetches() int { return len(f.answers("config")) }

// withFixture runs the test in a bubble, with a portal that hands out the kubeconfig.
func withFixture(t *testing.T, content *string, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.nodes.kubeconfig = func() string { return *content }
		test(f)
	})
}

// TestFetchesWhatNoLongerWorks: when the stored kubeconfig does not work any more, another one is fetched at once, stored, and
// used.
func TestFetchesWhatNoLongerWorks(t *testing.T) {
	tests := map[string]struct {
		access            workload.Health
		user              string
		condition, reason string // if the portal has no other kubeconfig
		says              string
	}{
		"refused":   {workload.Unauthorized, "old", infrav1.ConnectedCondition, infrav1.KubeconfigRefusedReason, "refuses the credentials"},
		"silent":    {workload.Unreachable, "old", infrav1.ConnectedCondition, infrav1.ConnectionDownReason, "does not answer"},
		"untrusted": {workload.Untrusted, "old", infrav1.ConnectedCondition, infrav1.KubeconfigRefusedReason, "the certificate of the API server"},
		"expired":   {workload.Unauthorized, kubeconfigs.JWT(`{"exp":1000}`), infrav1.KubeconfigReadyCondition, infrav1.KubeconfigRefusedReason, "have expired"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			now := newAPIServer(test.access).kubeconfig("token: " + test.user)
			withFixture(t, &now, func(f *fixture) {
				if o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]; !o.IsDone() {
					t.Fatalf("%+v", o)
				}
				if o := f.connect().outcomes[test.condition]; !says(o, test.reason, test.says) || f.fetches() != 2 {
					t.Errorf("without another kubeconfig: %d fetches, %+v", f.fetches(), o)
				}
				now = newAPIServer(workload.Working).kubeconfig("token: new")
				time.Sleep(37 * time.Second) // the backoff after the first fetch without a result, with its jitter
				before := f.workloads.opened
				s := f.connect()
				if !f.storedIs(now) || f.workloads.opened != before+1 || !s.done(infrav1.KubeconfigReadyCondition) || f.fetches() != 3 {
					t.Errorf("the new kubeconfig is not stored and used: %d fetches, %+v", f.fetches(), s.outcomes)
				}
			})
		})
	}
}

// TestFetchesSlowlyInVain: a portal that has no other kubeconfig is asked at growing intervals, for every event and every answer
// of the API server.
func TestFetchesSlowlyInVain(t *testing.T) {
	server := newAPIServer(workload.Unauthorized)
	now := server.kubeconfig("token: old")
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		for i := range 900 {
			if i > 600 { // it flaps between two answers
				server.access = []workload.Health{workload.Unauthorized, workload.Unreachable}[i/5%2]
			}
			f.connect()
			time.Sleep(2 * time.Second)
		}
		if n := f.fetches() - 1; n < 5 || n > 12 {
			t.Errorf("%d fetches in 30 minutes, want at 0, 30, 90, 210, 450 and 930 s, and as many for the other answer", n)
		}
	})
}

// TestFetchesBeforeExpiry: a kubeconfig is fetched again after two thirds of its lifetime, while the connection works.
func TestFetchesBeforeExpiry(t *testing.T) {
	var now string
	withFixture(t, &now, func(f *fixture) {
		issue := func() {
			certificate, key := kubeconfigs.ClientPair(t, time.Now(), time.Now().Add(3*time.Hour))
			now = kubeconfigs.For("server: 'https://192.0.2.1'", fmt.Sprintf("client-certificate-data: %s, client-key-data: %s",
				base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key)))
		}
		issue()
		f.connect()
		if again := f.connect().outcomes[infrav1.KubeconfigReadyCondition].RequeueAfter; again < 119*time.Minute || again > 2*time.Hour {
			t.Errorf("looked at again after %s", again)
		}
		time.Sleep(119 * time.Minute)
		if f.connect(); f.fetches() != 1 {
			t.Errorf("%d fetches before it is time", f.fetches())
		}
		issue()
		time.Sleep(2 * time.Minute)
		if f.connect(); f.fetches() != 2 || !f.storedIs(now) || f.workloads.opened != 2 {
			t.Errorf("%d fetches and %d connections when it is time", f.fetches(), f.workloads.opened)
		}
		time.Sleep(2*time.Hour + time.Minute) // the portal issues no other one
		for range 720 {
			f.connect()
			time.Sleep(5 * time.Second)
		}
		if got := f.fetches() - 2; got < 3 || got > 8 || f.controlPlane().Status.KubeconfigExpires == nil {
			t.Errorf("%d fetches in the last hour, and status has the end %v", got, f.controlPlane().Status.KubeconfigExpires)
		}
	})
}

// TestFetchesAfterUpgrade: the kubeconfig is fetched once after an upgrade that has ended, also by a manager that did not see the end, and also if
// a scale comes before the fetch. An upgrade that the portal has not begun changes nothing.
func TestFetchesAfterUpgrade(t *testing.T) {
	for title, test := range map[string]struct {
		result operation.Result
		scaled bool
		want   int
	}{
		"it has succeeded":         {operation.Succeeded, false, 1},
		"it was refused":           {operation.Refused, false, 0},
		"a scale comes in between": {operation.Succeeded, true, 1},
	} {
		t.Run(title, func(t *testing.T) {
			now := kubeconfigs.For("server: 'https://192.0.2.1'", "token: "+kubeconfigs.Canary)
			withFixture(t, &now, func(f *fixture) {
				f.connect()
				f.connect()
				before := f.fetches()
				f.change(func(cp *infrav1.PortalControlPlane) {
					state := stateOf(cp)
					state.Last = operation.New(operation.Upgrade, after)
					state = state.After(operation.Event{Result: test.result})
					if test.scaled {
						state.Last = operation.New(operation.Scale, "3")
						state = state.After(operation.Event{Result: operation.Succeeded})
					}
					state.Put(cp)
				})
				f.restart()
				now = kubeconfigs.For("server: 'https://192.0.2.2'", "token: "+kubeconfigs.Canary)
				for range 60 {
					f.connect()
					time.Sleep(time.Minute)
				}
				host := []string{"192.0.2.1", "192.0.2.2"}[test.want]
				if got := f.controlPlane().Spec.ControlPlaneEndpoint.Host; f.fetches()-before != test.want || got != host || f.storedIs(now) != (test.want == 1) {
					t.Errorf("%d fetches, want %d; endpoint %s", f.fetches()-before, test.want, got)
				}
			})
		})
	}
}

// TestConnecting: while a connection begins, no other one is made, and no other kubeconfig is fetched.
func TestConnecting(t *testing.T) {
	now := newAPIServer(workload.Connecting).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		for range 60 {
			if o := f.connect().outcomes[infrav1.ConnectedCondition]; o.Reason != infrav1.ConnectionDownReason || o.RequeueAfter != access.ConnectTime {
				t.Fatalf("%+v", o)
			}
			time.Sleep(time.Second)
		}
		if f.workloads.opened != 1 || f.fetches() != 1 {
			t.Errorf("%d connections, %d fetches", f.workloads.opened, f.fetches())
		}
	})
}
