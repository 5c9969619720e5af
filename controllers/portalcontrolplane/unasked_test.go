// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// passes runs passes for that time, and returns the last one.
func (f *fixture) passes(span, every time.Duration) (s *scope) {
	f.Helper()
	for began := time.Now(); time.Since(began) < span; time.Sleep(every) {
		s = f.pass()
	}
	return s
}

// cordoned returns the worker Nodes that accept no Pods, and how many workers there are.
func (f *fixture) cordoned() (names []string, workers int) {
	f.Helper()
	all := f.workers()
	for _, n := range all {
		if n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	return names, len(all)
}

// editDeployment changes the MachineDeployment as core and users do, and returns it.
func (f *fixture) editDeployment(edit func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	f.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: deployment}, md); err != nil {
		f.Fatal(err)
	}
	edit(md)
	if err := f.store.Update(f.Context(), md); err != nil {
		f.Fatal(err)
	}
	return md
}

// TestLastDeploymentGoes deletes the only MachineDeployment while the portal does not accept the scale at once. When the nodes are
// drained, core lets the MachineDeployment go, so no object asks for workers any more. The drained nodes are removed all the same,
// or one stays if the portal insists on it. No node stays cordoned, and the next upgrade does not wait. A new MachineDeployment gets new nodes.
func TestLastDeploymentGoes(t *testing.T) {
	scale := "/kubernetes-clusters/*/scale"
	tests := map[string]struct {
		fault emulator.Fault
		stay  int
	}{
		"the portal is busy":           {emulator.Fault{Path: scale, Code: emulator.CodeResourceBusy, For: 30 * time.Second}, 0},
		"the portal is away":           {emulator.Fault{Path: scale, Status: 503, For: 10 * time.Minute}, 0},
		"the portal insists on one":    {emulator.Fault{Path: scale, Code: emulator.CodeInvalidParameter, Status: 422, Field: "size", Count: 1}, 1},
		"the scale fails":              {emulator.Fault{Path: scale, Job: emulator.JobFails, Count: 1}, 0},
		"the answer to it is lost":     {emulator.Fault{Path: scale, Cut: true, Count: 1}, 0},
		"the answer is lost, it works": {emulator.Fault{Path: scale, Cut: true, After: true, Count: 1}, 0},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				f.pass()
				f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = []string{"core"} })
				if err := f.store.Delete(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment}}); err != nil {
					t.Fatal(err)
				}
				f.strike(test.fault)
				asked := func() bool {
					return slices.ContainsFunc(f.portal.RequestLog(), func(e emulator.LogEntry) bool { return strings.HasSuffix(e.Path, "/scale") })
				}
				for !asked() {
					f.passes(time.Second, time.Second)
				}
				md := f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = nil }) // as core does when the last Machine is gone
				s := f.passes(time.Hour, 5*time.Second)
				if names, workers := f.cordoned(); len(names) > 0 || workers != test.stay {
					t.Errorf("an hour later %d workers exist, want %d; cordoned: %v; %+v", workers, test.stay, names, s.outcomes[infrav1.WorkersReadyCondition])
				}
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				if f.passes(time.Hour, 5*time.Second); len(f.answers("upgrade")) != 1 {
					t.Errorf("an hour after spec.version was raised, the portal was asked for %d upgrades", len(f.answers("upgrade")))
				}
				next := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: md.Namespace, Name: md.Name, Labels: md.Labels}, Spec: md.Spec}
				if err := f.store.Create(t.Context(), next); err != nil {
					t.Fatal(err)
				}
				f.passes(10*time.Minute, 5*time.Second)
				if names, workers := f.cordoned(); len(names) > 0 || workers != 3 {
					t.Errorf("ten minutes after a new MachineDeployment %d workers exist, want 3; cordoned: %v", workers, names)
				}
			})
		})
	}
}

// TestNothingAsksForWorkers deletes the MachineDeployment at once, so its nodes were never drained. They stay, and take Pods.
func TestNothingAsksForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.pass()
		if err := f.store.Delete(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment}}); err != nil {
			t.Fatal(err)
		}
		s := f.passes(time.Hour, 5*time.Second)
		if names, workers := f.cordoned(); len(names) > 0 || workers != 3 || len(f.answers("scale")) > 0 {
			t.Errorf("%d workers, cordoned: %v, %d requests", workers, names, len(f.answers("scale")))
		}
		o := s.outcomes[infrav1.WorkersReadyCondition]
		for _, word := range []string{"3 worker nodes stay", "create a MachineDeployment", "0 replicas"} {
			if o.Reason != infrav1.WaitingForObjectReason || !strings.Contains(o.Message, word) {
				t.Errorf("%s: %q does not contain %q", o.Reason, o.Message, word)
			}
		}
	})
}

// scales records what the portal is asked to scale to. With an answer, the portal refuses a cluster without workers.
type scales struct {
	http.RoundTripper
	answer string
	asked  []string
}

// recordScales puts the recorder before the portal.
func (f *fixture) recordScales(answer string) *scales {
	f.Helper()
	s := &scales{RoundTripper: f.portal.Transport(), answer: answer}
	f.cloud = newCloud(f.T, "https://portal.example", s)
	return s
}

// RoundTrip implements http.RoundTripper.
func (p *scales) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/scale") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		p.asked = append(p.asked, string(body))
		if string(body) == `{"size":0}` && p.answer != "" {
			return &http.Response{StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(p.answer)), Request: r}, nil
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return p.RoundTripper.RoundTrip(r)
}

// TestPortalInsistsOnAWorker scales to 0 at a portal that wants one worker, whichever way it says so. One worker stays, takes Pods, and
// is left alone by later operations. When more workers have been wanted in between, the portal is asked again.
func TestPortalInsistsOnAWorker(t *testing.T) {
	for title, answer := range map[string]string{
		"field size":            `{"error":{"code":"INVALID_PARAMETER","message":"at least 1","field":"size","requestId":"r"}}`,
		"invalid without field": `{"error":{"code":"INVALID_PARAMETER","message":"a cluster has at least one worker","requestId":"r"}}`,
		"not allowed":           `{"error":{"code":"OPERATION_NOT_ALLOWED","message":"a cluster has at least one worker","requestId":"r"}}`,
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
				portal := f.recordScales(answer)
				wait := func(what string, want ...string) {
					t.Helper()
					f.passes(time.Hour, 5*time.Second)
					names, workers := f.cordoned()
					if fmt.Sprint(portal.asked) != fmt.Sprint(want) || len(names) > 0 {
						t.Errorf("%s: asked for %v, want %v; %d workers, cordoned: %v", what, portal.asked, want, workers, names)
					}
				}
				f.pass()
				f.scale(0)
				wait("to 0", `{"size":0}`, `{"size":1}`)
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				wait("after an upgrade", `{"size":0}`, `{"size":1}`)
				f.restart()
				wait("after a restart", `{"size":0}`, `{"size":1}`)
				f.scale(2)
				wait("to 2", `{"size":0}`, `{"size":1}`, `{"size":2}`)
				f.scale(0)
				wait("to 0 again", `{"size":0}`, `{"size":1}`, `{"size":2}`, `{"size":0}`, `{"size":1}`)
			})
		})
	}
}

// refuseEvictions starts a manager that meets this answer to every eviction. The worker Nodes, last name first, each get the Pod of that
// name, if it has one. The last Node with a Pod is returned.
func (f *fixture) refuseEvictions(refusal error, pods ...string) (node string) {
	f.Helper()
	workload, _ := f.nodes.Client.(client.WithWatch)
	f.nodes.Client = interceptor.NewClient(workload, interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
		return refusal
	}})
	f.restart()
	all := f.workers()
	slices.Reverse(all)
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	for i, name := range pods {
		if name != "" {
			node = all[i].Name
			objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}})
		}
	}
	for _, o := range objects {
		if err := workload.Create(f.Context(), o); err != nil {
			f.Fatal(err)
		}
	}
	return node
}

// TestEvictionThatFails drains two nodes. A Pod on the second one cannot be evicted, for a reason that will never go away. The first
// one is removed all the same, and the condition names the Pod. Package drain has the other reasons.
func TestEvictionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		refusal := apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
		held := f.refuseEvictions(refusal, "", "db-0") // of one age, the last name goes first
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		f.pass()
		f.scale(1)
		s := f.passes(time.Hour, 5*time.Second)
		o := s.outcomes[infrav1.WorkersReadyCondition]
		if o.Reason != infrav1.DrainingReason || !strings.Contains(o.Message, held) || !strings.Contains(o.Message, "default/db-0") {
			t.Errorf("%s: %s", o.Reason, o.Message)
		}
		if names, workers := f.cordoned(); workers != 2 || !slices.Equal(names, []string{held}) {
			t.Errorf("%d workers, cordoned: %v: one failed eviction keeps the other node from its removal", workers, names)
		}
	})
}
