// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// connect runs the steps up to the connection, as a pass does.
func (f *fixture) connect() *scope {
	f.Helper()
	f.workloads.version = func(string) string { return before }
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
	if err != nil {
		f.Fatal(err)
	}
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
		old    string
		reason string // if the portal has no other kubeconfig
		of     string
		says   string
	}{
		"refused":   {newAPIServer(t, workload.Unauthorized).kubeconfig("token: old"), infrav1.KubeconfigRefusedReason, infrav1.ConnectedCondition, "refuses the credentials"},
		"silent":    {newAPIServer(t, workload.Unreachable).kubeconfig("token: old"), infrav1.ConnectionDownReason, infrav1.ConnectedCondition, "does not answer"},
		"untrusted": {newAPIServer(t, workload.Untrusted).kubeconfig("token: old"), infrav1.KubeconfigRefusedReason, infrav1.ConnectedCondition, "the certificate of the API server"},
		"expired":   {newAPIServer(t, workload.Unauthorized).kubeconfig("token: " + kubeconfigs.JWT(`{"exp":1000}`)), infrav1.KubeconfigRefusedReason, infrav1.KubeconfigReadyCondition, "have expired"},
	}
	works := newAPIServer(t, workload.Working).kubeconfig("token: new")
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			now := test.old
			withFixture(t, &now, func(f *fixture) {
				if o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]; !o.IsDone() {
					t.Fatalf("%+v", o)
				}
				s := f.connect()
				if o := s.outcomes[test.of]; o.IsDone() || o.Reason != test.reason || !strings.Contains(o.Message, test.says) || strings.Contains(o.Message, kubeconfigs.Canary) {
					t.Errorf("without another kubeconfig: %+v", o)
				}
				if got := f.fetches(); got != 2 {
					t.Errorf("%d fetches, want one beside the first", got)
				}
				now = works
				time.Sleep(37 * time.Second) // the backoff after the first fetch without a result, with its jitter
				before := f.workloads.opened
				s = f.connect()
				if !f.storedIs(works) || f.workloads.opened != before+1 || !s.done(infrav1.KubeconfigReadyCondition) {
					t.Errorf("the new kubeconfig is not stored and used: %+v", s.outcomes)
				}
				if got := f.fetches(); got != 3 {
					t.Errorf("%d fetches, want one more", got)
				}
			})
		})
	}
}

// TestFetchesSlowlyInVain: a portal that has no other kubeconfig is asked at growing intervals, for every event and every answer
// of the API server.
func TestFetchesSlowlyInVain(t *testing.T) {
	server := newAPIServer(t, workload.Unauthorized)
	now := server.kubeconfig("token: old")
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		for range 600 {
			f.connect()
			time.Sleep(2 * time.Second)
		}
		refused := f.fetches() - 1
		if refused < 5 || refused > 6 {
			t.Errorf("%d fetches in 20 minutes, want at 0, 30, 90, 210, 450 and 930 s, or a little later", refused)
		}
		for i := range 300 { // it flaps between two answers
			server.access.Store([]workload.Access{workload.Unauthorized, workload.Unreachable}[i/5%2])
			f.connect()
			time.Sleep(2 * time.Second)
		}
		if more := f.fetches() - 1 - refused; more > 6 {
			t.Errorf("%d more fetches in 10 minutes", more)
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
		s := f.connect()
		if after := s.outcomes[infrav1.KubeconfigReadyCondition].RequeueAfter; after < 119*time.Minute || after > 2*time.Hour {
			t.Errorf("looked at again after %s", after)
		}
		time.Sleep(119 * time.Minute)
		f.connect()
		if got := f.fetches(); got != 1 {
			t.Errorf("%d fetches before it is time", got)
		}
		issue()
		time.Sleep(2 * time.Minute)
		f.connect()
		if f.fetches() != 2 || !f.storedIs(now) || f.workloads.opened != 2 {
			t.Errorf("%d fetches and %d connections when it is time", f.fetches(), f.workloads.opened)
		}
		time.Sleep(2*time.Hour + time.Minute) // the portal issues no other one
		for range 720 {
			f.connect()
			time.Sleep(5 * time.Second)
		}
		if got := f.fetches() - 2; got < 3 || got > 8 {
			t.Errorf("%d fetches in the last hour", got)
		}
		if f.controlPlane().Status.KubeconfigExpires == nil {
			t.Error("status does not show that the kubeconfig expires")
		}
	})
}

// TestFetchesAfterUpgrade: the kubeconfig is fetched once after an upgrade that has ended, also by a manager that did not see the end, and also if
// a scale comes before the fetch. An upgrade that the portal has not begun changes nothing. One that failed may have.
func TestFetchesAfterUpgrade(t *testing.T) {
	for title, test := range map[string]struct {
		result operation.Result
		scaled bool
		want   int
	}{
		"it runs":                   {"", false, 0},
		"it has succeeded":          {operation.Succeeded, false, 1},
		"it has failed":             {operation.Failed, false, 1},
		"it was abandoned":          {operation.Abandoned, false, 1},
		"it was refused":            {operation.Refused, false, 0},
		"a scale comes in between":  {operation.Succeeded, true, 1},
		"a scale after the refusal": {operation.Refused, true, 0},
	} {
		t.Run(title, func(t *testing.T) {
			want := test.want
			now := kubeconfigs.For("server: 'https://192.0.2.1'", "token: "+kubeconfigs.Canary)
			withFixture(t, &now, func(f *fixture) {
				f.connect()
				f.connect()
				before := f.fetches()
				f.change(func(cp *infrav1.PortalControlPlane) {
					state := stateOf(cp)
					state.Last = operation.New(operation.Upgrade, after)
					if test.result != "" {
						state = state.After(operation.Event{Result: test.result})
					}
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
				host := map[int]string{0: "192.0.2.1", 1: "192.0.2.2"}[want]
				if got := f.controlPlane().Spec.ControlPlaneEndpoint.Host; f.fetches()-before != want || got != host || f.storedIs(now) != (want == 1) {
					t.Errorf("%d fetches, want %d; endpoint %s", f.fetches()-before, want, got)
				}
			})
		})
	}
}

// TestConnecting: while a connection begins, no other one is made, and no other kubeconfig is fetched.
func TestConnecting(t *testing.T) {
	now := newAPIServer(t, workload.Connecting).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		for range 60 {
			s := f.connect()
			if o := s.outcomes[infrav1.ConnectedCondition]; o.Reason != infrav1.ConnectionDownReason || o.RequeueAfter != access.ConnectTime {
				t.Fatalf("%+v", o)
			}
			time.Sleep(time.Second)
		}
		if f.workloads.opened != 1 || f.fetches() != 1 {
			t.Errorf("%d connections, %d fetches", f.workloads.opened, f.fetches())
		}
	})
}
