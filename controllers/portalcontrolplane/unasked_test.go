// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	f.must(f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: deployment}, md))
	edit(md)
	f.must(f.store.Update(f.Context(), md))
	return md
}

// TestLastDeploymentGoes deletes the only MachineDeployment while the portal does not accept the scale at once. When the nodes are
// drained, core lets the MachineDeployment go, so no object asks for workers any more. The drained nodes are removed all the same,
// or one stays if the portal insists on it. No node stays cordoned, and the next upgrade does not wait. A new MachineDeployment gets new nodes.
func TestLastDeploymentGoes(t *testing.T) {
	scale := "/kubernetes-clusters/*/scale"
	type row struct {
		fault emulator.Fault
		stay  int
	}
	cases(t, map[string]row{
		"the portal is busy":           {emulator.Fault{Path: scale, Code: emulator.CodeResourceBusy, For: 30 * time.Second}, 0},
		"the portal is away":           {emulator.Fault{Path: scale, Status: 503, For: 10 * time.Minute}, 0},
		"the portal insists on one":    {emulator.Fault{Path: scale, Code: emulator.CodeInvalidParameter, Status: 422, Field: "size", Count: 1}, 1},
		"the scale fails":              {emulator.Fault{Path: scale, Job: emulator.JobFails, Count: 1}, 0},
		"the answer to it is lost":     {emulator.Fault{Path: scale, Cut: true, Count: 1}, 0},
		"the answer is lost, it works": {emulator.Fault{Path: scale, Cut: true, After: true, Count: 1}, 0},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		f.pass()
		f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = []string{"core"} })
		f.must(f.store.Delete(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment}}))
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
		f.must(f.store.Create(t.Context(), next))
		f.passes(10*time.Minute, 5*time.Second)
		if names, workers := f.cordoned(); len(names) > 0 || workers != 3 {
			t.Errorf("ten minutes after a new MachineDeployment %d workers exist, want 3; cordoned: %v", workers, names)
		}
	})
}

// TestNothingAsksForWorkers deletes the MachineDeployment at once, so its nodes were never drained. They stay, and take Pods.
func TestNothingAsksForWorkers(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.pass()
		f.must(f.store.Delete(f.Context(), &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment}}))
		s := f.passes(time.Hour, 5*time.Second)
		if names, workers := f.cordoned(); len(names) > 0 || workers != 3 || len(f.answers("scale")) > 0 {
			f.Errorf("%d workers, cordoned: %v, %d requests", workers, names, len(f.answers("scale")))
		}
		o := s.outcomes[infrav1.WorkersReadyCondition]
		for _, word := range []string{"3 worker nodes stay", "create a MachineDeployment", "0 replicas"} {
			if o.Reason != infrav1.WaitingForObjectReason || !strings.Contains(o.Message, word) {
				f.Errorf("%s: %q does not contain %q", o.Reason, o.Message, word)
			}
		}
	})
}

// TestPortalInsistsOnAWorker scales to 0 at a portal that wants one worker. One worker stays, takes Pods, and is left alone by later operations. When
// more workers have been wanted in between, the portal is asked again.
func TestPortalInsistsOnAWorker(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		wait := func(what string, workers int, want ...string) {
			f.Helper()
			f.passes(time.Hour, 10*time.Second)
			if names, got := f.cordoned(); !slices.Equal(f.answers("scale"), want) || got != workers || len(names) > 0 {
				f.Errorf("%s: answers %v, want %v; %d workers, cordoned: %v", what, f.answers("scale"), want, got, names)
			}
		}
		insist := emulator.Fault{Path: routeScale, Code: emulator.CodeInvalidParameter, Status: 422, Field: "size", Count: 1}
		f.pass()
		f.strike(insist)
		f.scale(0)
		wait("to 0", 1, "422", "202")
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		wait("after an upgrade", 1, "422", "202")
		f.restart()
		wait("after a restart", 1, "422", "202")
		f.scale(2)
		wait("to 2", 2, "422", "202", "202")
		f.strike(insist)
		f.scale(0)
		wait("to 0 again", 1, "422", "202", "202", "422", "202")
	})
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
		f.must(workload.Create(f.Context(), o))
	}
	return node
}
