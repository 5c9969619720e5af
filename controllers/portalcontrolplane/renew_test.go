// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// connect runs the steps up to the connection.
func (h *house) connect() *scope {
	h.Helper()
	s := h.scope()
	for _, step := range h.manager.steps()[:3] {
		if step.condition == infrav1.ConnectedCondition && s.access == accessWorking {
			break // a ClusterCache that is connected needs an API server
		}
		s.outcomes[step.condition] = step.run(h.Context(), s)
		if o := s.outcomes[step.condition]; o.Kind == outcome.Failed {
			h.Fatal(o.Err)
		}
	}
	before := s.controlPlane.Status.DeepCopy()
	if err := h.manager.patchStatus(h.Context(), s, before); err != nil {
		h.Fatal(err)
	}
	return s
}

// disconnect makes the ClusterCache lose its connection, also for later managers.
func (h *house) disconnect() { h.manager.ClusterCache = clustercache.NewFakeEmptyClusterCache() }

// stored is the kubeconfig in the Secret.
func (h *house) stored() string {
	h.Helper()
	s := &corev1.Secret{}
	if err := h.store.Get(h.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}, s); err != nil {
		h.Fatal(err)
	}
	return string(s.Data["value"])
}

// storedIs reports whether the Secret holds the kubeconfig in its minimal form.
func (h *house) storedIs(content string) bool {
	h.Helper()
	minimal, err := kubeconfig.Minimal([]byte(content))
	if err != nil {
		h.Fatal(err)
	}
	return h.stored() == string(minimal)
}

// fetches counts the requests for the kubeconfig.
func (h *house) fetches() int { return len(h.answers("config")) }

// inHouse runs the test in a bubble, with a portal that hands out the kubeconfig.
func inHouse(t *testing.T, content *string, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.nodes.kubeconfig = func() string { return *content }
		test(h)
	})
}

// TestFetchesWhatNoLongerWorks: when the stored kubeconfig does not work any more, another one is fetched at once, stored, and
// used.
func TestFetchesWhatNoLongerWorks(t *testing.T) {
	closed := newAPIServer(t, 200)
	closed.Close()
	stranger, _ := clientPair(t, time.Now().Add(time.Hour))
	tests := map[string]struct {
		old    string
		reason string // if the portal has no other kubeconfig
		of     string
	}{
		"refused":   {newAPIServer(t, 401).kubeconfig("token: old"), infrav1.KubeconfigRefusedReason, infrav1.ConnectedCondition},
		"silent":    {closed.kubeconfig("token: old"), infrav1.ConnectionDownReason, infrav1.ConnectedCondition},
		"untrusted": {kubeconfigFor("server: '"+newAPIServer(t, 200).URL+"', certificate-authority-data: "+base64.StdEncoding.EncodeToString(stranger), "token: old"), infrav1.ServerUntrustedReason, infrav1.ConnectedCondition},
		"expired":   {newAPIServer(t, 401).kubeconfig("token: " + jwt(`{"exp":1000}`)), infrav1.KubeconfigExpiredReason, infrav1.KubeconfigReadyCondition},
	}
	works := newAPIServer(t, 200).kubeconfig("token: new")
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			now := test.old
			inHouse(t, &now, func(h *house) {
				if o := h.connect().outcomes[infrav1.KubeconfigReadyCondition]; !o.IsDone() {
					t.Fatalf("%+v", o)
				}
				h.disconnect()
				s := h.connect()
				if o := s.outcomes[test.of]; o.IsDone() || o.Reason != test.reason || strings.Contains(o.Message, canary) {
					t.Errorf("without another kubeconfig: %+v", o)
				}
				if got := h.fetches(); got != 2 {
					t.Errorf("%d fetches, want one beside the first", got)
				}
				now = works
				time.Sleep(37 * time.Second) // the backoff after the first fetch without a result, with its jitter
				before := h.reconnects
				s = h.connect()
				if !h.storedIs(works) || h.reconnects != before+1 || !s.done(infrav1.KubeconfigReadyCondition) {
					t.Errorf("the new kubeconfig is not stored and used: %+v", s.outcomes)
				}
				if got := h.fetches(); got != 3 {
					t.Errorf("%d fetches, want one more", got)
				}
			})
		})
	}
}

// TestFetchesSlowlyInVain: a portal that has no other kubeconfig is asked at growing intervals, for every event and every answer
// of the API server.
func TestFetchesSlowlyInVain(t *testing.T) {
	server := newAPIServer(t, 401)
	now := server.kubeconfig("token: old")
	inHouse(t, &now, func(h *house) {
		h.connect()
		h.disconnect()
		for range 600 {
			h.connect()
			time.Sleep(2 * time.Second)
		}
		refused := h.fetches() - 1
		if refused < 5 || refused > 6 {
			t.Errorf("%d fetches in 20 minutes, want at 0, 30, 90, 210, 450 and 930 s, or a little later", refused)
		}
		for i := range 300 { // it flaps between two answers
			server.status.Store([]int32{401, 503}[i/5%2])
			h.connect()
			time.Sleep(2 * time.Second)
		}
		if more := h.fetches() - 1 - refused; more > 6 {
			t.Errorf("%d more fetches in 10 minutes", more)
		}
	})
}

// TestFetchesBeforeExpiry: a kubeconfig is fetched again after two thirds of its lifetime, while the connection works.
func TestFetchesBeforeExpiry(t *testing.T) {
	var now string
	inHouse(t, &now, func(h *house) {
		issue := func() {
			certificate, key := clientPair(t, time.Now().Add(3*time.Hour))
			now = kubeconfigFor("server: 'https://192.0.2.1'", fmt.Sprintf("client-certificate-data: %s, client-key-data: %s",
				base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(key)))
		}
		issue()
		h.connect()
		s := h.connect()
		if after := s.outcomes[infrav1.KubeconfigReadyCondition].RequeueAfter; after < 119*time.Minute || after > 2*time.Hour {
			t.Errorf("looked at again after %s", after)
		}
		time.Sleep(119 * time.Minute)
		h.connect()
		if got := h.fetches(); got != 1 {
			t.Errorf("%d fetches before it is time", got)
		}
		issue()
		time.Sleep(2 * time.Minute)
		h.connect()
		if h.fetches() != 2 || !h.storedIs(now) || h.reconnects != 1 {
			t.Errorf("%d fetches and %d connections when it is time", h.fetches(), h.reconnects)
		}
		time.Sleep(2*time.Hour + time.Minute) // the portal issues no other one
		for range 720 {
			h.connect()
			time.Sleep(5 * time.Second)
		}
		if got := h.fetches() - 2; got < 3 || got > 8 {
			t.Errorf("%d fetches in the last hour", got)
		}
	})
}

// TestFetchesAfterEachOperation: the kubeconfig is fetched once, also by a manager that did not see the operation end.
func TestFetchesAfterEachOperation(t *testing.T) {
	now := kubeconfigFor("server: 'https://192.0.2.1'", "token: "+canary)
	inHouse(t, &now, func(h *house) {
		h.connect()
		h.connect()
		upgrade := operation.New(operation.Upgrade, after)
		put := func(result operation.Result) {
			upgrade.Result = result
			h.change(func(cp *infrav1.PortalControlPlane) { operation.Put(cp, upgrade) })
		}
		put("")
		h.connect()
		if got := h.fetches(); got != 1 {
			t.Errorf("%d fetches while the upgrade runs", got)
		}
		put(operation.Succeeded)
		h.restart()
		now = kubeconfigFor("server: 'https://192.0.2.2'", "token: "+canary)
		for range 10 {
			h.connect()
			time.Sleep(time.Minute)
		}
		if got := h.controlPlane().Spec.ControlPlaneEndpoint.Host; h.fetches() != 2 || got != "192.0.2.2" || !h.storedIs(now) {
			t.Errorf("%d fetches after the upgrade, endpoint %s", h.fetches(), got)
		}
	})
}

// TestConnecting checks how often a new connection to an API server that answers is made. The ClusterCache gets time to connect
// first. Without it, each pass would drop the connection that the one before had just started.
func TestConnecting(t *testing.T) {
	now := newAPIServer(t, 200).kubeconfig("token: " + canary)
	inHouse(t, &now, func(h *house) {
		h.connect()
		h.disconnect()
		s := h.connect()
		if o := s.outcomes[infrav1.ConnectedCondition]; o.Reason != infrav1.ConnectionDownReason || h.reconnects != 0 || h.fetches() != 1 {
			t.Errorf("%+v, %d connections, %d fetches", o, h.reconnects, h.fetches())
		}
		for range 60 {
			time.Sleep(time.Second)
			h.connect()
		}
		if h.reconnects != 4 { // after 5, 20, 35 and 50 seconds
			t.Errorf("%d connections within a minute", h.reconnects)
		}
	})
}
