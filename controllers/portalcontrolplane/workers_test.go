// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestCollectedDeploymentsKeepTheirWorkers deletes two MachineDeployments. If the garbage collector does, or a person although the Cluster is
// protected, or with the namespace, the portal is asked neither for fewer workers nor, for new MachineDeployments, for more, and no node is drained.
func TestCollectedDeploymentsKeepTheirWorkers(t *testing.T) {
	type row struct {
		owner    types.UID
		prepare  func(*fixture)
		replaced bool
		holds    string // the reason, or "" if the portal is asked
	}
	cases(t, map[string]row{
		"collector, and a person replaces them": {owner: "earlier", replaced: true, holds: infrav1.DeletionNotConfirmedReason},
		"of a protected Cluster": {prepare: func(f *fixture) {
			f.annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
		}, holds: infrav1.WaitingForObjectReason},
		"with the namespace": {prepare: (*fixture).endNamespace, holds: infrav1.DeletingReason},
		"a person":           {},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 4, emulator.Durations{})
		md := f.editDeployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Replicas, md.OwnerReferences, md.Finalizers = ptr.To[int32](1), owner(test.owner), []string{"a/b"}
		})
		add := func(name string, replicas int32, owners []metav1.OwnerReference) *clusterv1.MachineDeployment {
			other := md.DeepCopy()
			other.Name, other.ResourceVersion, other.Spec.Replicas, other.OwnerReferences = name, "", &replicas, owners
			f.must(f.store.Create(t.Context(), other))
			return other
		}
		deleted := []*clusterv1.MachineDeployment{add("second", 3, md.OwnerReferences), md}
		if test.prepare != nil {
			test.prepare(f)
		}
		for _, gone := range deleted {
			f.must(f.store.Delete(t.Context(), gone))
			f.passes(2*time.Minute, 4*time.Second)
		}
		if test.replaced {
			add("third", 4, nil)
		}
		s := f.passes(5*time.Minute, 4*time.Second)
		names, _ := f.cordoned()
		if o := s.outcomes[infrav1.WorkersReadyCondition]; test.holds != "" && (o.Reason != test.holds || len(names) > 0) {
			t.Errorf("drained: %v; %+v", names, o)
		}
		for _, gone := range deleted {
			f.must(f.store.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))
			gone.Finalizers = nil
			f.must(f.store.Update(t.Context(), gone))
			f.passes(5*time.Minute, 4*time.Second)
		}
		if asked := len(f.answers("scale")) > 0; asked == (test.holds != "") {
			t.Errorf("the portal was asked to scale: %v", f.answers("scale"))
		}
	})
}

// endNamespace deletes the namespace of the Cluster. It is gone when its last object is.
func (f *fixture) endNamespace() {
	f.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prod.Namespace, Finalizers: []string{"test/objects"}}}
	f.must(f.store.Create(f.Context(), namespace))
	f.must(f.store.Delete(f.Context(), namespace))
}

// TestHoldsBeforeItBinds: no Machine is bound, and the portal is asked for nothing, while control nodes may be taken for workers.
func TestHoldsBeforeItBinds(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.changeNode(f.portal.Clusters()[0].Nodes[0].Name, func(n *corev1.Node) { n.Labels = nil })
		f.change(func(cp *infrav1.PortalControlPlane) {
			put(cp, &operation.Operation{ID: "1", Type: operation.Create, Target: "prod", Result: operation.Succeeded})
			cp.Spec.Replicas = ptr.To[int32](1)
		})
		f.scale(5)
		o := f.passes(time.Minute, 10*time.Second).outcomes[infrav1.WorkersReadyCondition]
		if !says(o, infrav1.WorkersUnrecognizedReason) || f.answers("scale") != nil {
			f.Errorf("scale: %q, %+v", f.answers("scale"), o)
		}
	})
}

// TestExpected checks which order of removal status reports, and why.
func TestExpected(t *testing.T) {
	for title, test := range map[string]struct {
		set      infrav1.RemovalOrder
		observed removal.Order
		want     infrav1.RemovalOrderStatus
	}{
		"nothing is known":         {"", "", infrav1.RemovalOrderStatus{Order: "Newest", Source: "Assumed"}},
		"set, and shown otherwise": {"Oldest", removal.Newest, infrav1.RemovalOrderStatus{Order: "Oldest", Source: "Set"}},
		"set, and shown as random": {"Newest", removal.Random, infrav1.RemovalOrderStatus{Order: "Newest", Source: "Set"}},
		"shown":                    {"", removal.Oldest, infrav1.RemovalOrderStatus{Order: "Oldest", Source: "Observed"}},
	} {
		s := passed(func(s *scope) {
			s.ControlPlane.Spec.RemovalOrder, s.Record.RemovalOrder.Order = test.set, test.observed
		})
		s.updateStatus()
		if got := s.ControlPlane.Status.RemovalOrder; got != test.want {
			t.Errorf("%s: %+v", title, got)
		}
	}
}

// TestUnexpectedOrder scales down at a portal that removes the oldest workers, which the provider does not know. The first request removes one worker.
// If that shows an order, the next request removes all others. Workers that joined in the same second may be of one batch, whose removal shows no
// order. Each undrained removal is one Warning on the control plane and one on the Cluster. TestOtherNode of test/world has an assumed order.
func TestUnexpectedOrder(t *testing.T) {
	newest, oldest := infrav1.RemovalOrderNewest, infrav1.RemovalOrderOldest
	type row struct {
		set      infrav1.RemovalOrder
		together bool // the workers joined in the same second
		fault    emulator.Fault
		to       int
		requests string
		expects  infrav1.RemovalOrder // then
		source   infrav1.RemovalOrderSource
		event    bool // about another order
	}
	fails := emulator.Fault{Path: routeScale, Job: emulator.JobFailsLate, Scale: emulator.ScaleDown, Count: 1}
	cases(t, map[string]row{
		"not known":          {to: 2, requests: "5 → 4, 4 → 2", expects: oldest, source: infrav1.RemovalOrderObserved, event: true},
		"one batch":          {together: true, to: 2, requests: "5 → 4, 4 → 3, 3 → 2", expects: oldest, source: infrav1.RemovalOrderAssumed, event: true},
		"no worker stays":    {to: 0, requests: "5 → 0", expects: newest, source: infrav1.RemovalOrderAssumed},
		"set wrongly":        {set: newest, to: 4, requests: "5 → 4", expects: newest, source: infrav1.RemovalOrderSet},
		"then the job fails": {set: newest, fault: fails, to: 4, requests: "5 → 4", expects: newest, source: infrav1.RemovalOrderSet},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 1, emulator.Durations{})
		f.expect(test.set)
		f.must(f.portal.SetVictimOrder(emulator.VictimsOldest))
		for size := 2; size <= 5; size++ {
			f.settleAt(size)
		}
		for _, n := range f.workers() {
			if test.together {
				f.changeNode(n.Name, func(n *corev1.Node) { n.CreationTimestamp = metav1.Now() })
			}
		}
		if test.fault.Job != "" {
			f.strike(test.fault)
		}
		f.events()
		up := len(emulator.ClusterChanges(f.portal.RequestLog()))
		status := f.settleAt(test.to).ControlPlane.Status.RemovalOrder
		requests := strings.ReplaceAll(strings.Join(emulator.ClusterChanges(f.portal.RequestLog())[up:], ", "), "Scaling size ", "")
		events := strings.Join(f.events(), "\n")
		event := strings.Contains(events, infrav1.EventUnexpectedWorkersRemoved)
		if requests != test.requests || status.Order != test.expects || status.Source != test.source || event != test.event {
			t.Errorf("requests: %s; %+v; event: %t", requests, status, event)
		}
		if n := strings.Count(events, "Warning "+infrav1.EventUndrainedWorkersRemoved); n != 2*len(f.nodes.undrained) || (n == 0) != (test.to == 0) {
			t.Errorf("%d Warnings of %s, which the portal removed undrained", n, f.nodes.undrained)
		}
	})
}

// settleAt sets the replicas, and waits until the portal runs as many workers and the last scale was compared.
func (f *fixture) settleAt(replicas int) *scope {
	f.Helper()
	f.scale(int32(replicas))
	for range 200 {
		time.Sleep(5 * time.Second)
		s := f.pass()
		if s.Op() == nil && s.Record.Size == replicas && len(s.plan.Present) == replicas && len(s.plan.Writes) == 0 && !s.plan.OrderObserved {
			return s
		}
	}
	f.Fatalf("does not settle at %d workers", replicas)
	return nil
}

// TestLastDeploymentGoes deletes the only MachineDeployment while the portal does not accept the scale at once, so no object asks for workers any more.
// The drained nodes are removed all the same, or one stays, not cordoned, if the portal insists on it. An upgrade and a new MachineDeployment follow.
func TestLastDeploymentGoes(t *testing.T) {
	type row struct {
		fault emulator.Fault
		stay  int
	}
	cases(t, map[string]row{
		"the portal is away":        {emulator.Fault{Status: 503, For: 10 * time.Minute}, 0},
		"the portal insists on one": {emulator.Fault{Code: emulator.CodeInvalidParameter, Status: 422, Field: "size", Count: 1}, 1},
		"the scale fails":           {emulator.Fault{Job: emulator.JobFails, Count: 1}, 0},
		"the answer to it is lost":  {emulator.Fault{Cut: true, Count: 1}, 0},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		f.pass()
		f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = []string{"core"} })
		f.must(f.store.Delete(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment}}))
		test.fault.Path = routeScale
		f.strike(test.fault)
		for len(f.answers("scale")) == 0 {
			f.passes(time.Second, time.Second)
		}
		md := f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Finalizers = nil }) // as core does when the last Machine is gone
		s := f.passes(time.Hour, 5*time.Second)
		if names, workers := f.cordoned(); len(names) > 0 || workers != test.stay {
			t.Errorf("an hour later %d workers exist, want %d; cordoned: %v; %+v", workers, test.stay, names, s.outcomes[infrav1.WorkersReadyCondition])
		}
		f.upgrade(after)
		if f.passes(time.Hour, 10*time.Second); len(f.answers("upgrade")) != 1 {
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

// TestAsksForNoMoreThanItManages: the portal is not asked for more workers than the provider can manage, because they would be
// billed and never have a Machine. It is asked again when the replicas are lowered.
func TestAsksForNoMoreThanItManages(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.scale(501)
		o := f.passes(time.Hour, 10*time.Minute).outcomes[infrav1.WorkersReadyCondition]
		if !stalled(o, infrav1.TooManyNodesReason, "501 workers") || f.answers("scale") != nil {
			f.Errorf("the portal was asked: %s; %+v", f.answers("scale"), o)
		}
		f.scale(3)
		f.passes(6*time.Minute, time.Minute)
		if size := f.portal.Clusters()[0].Size; size != 3 {
			f.Errorf("%d workers", size)
		}
	})
	manage(t, false, func(e *estate) {
		key := e.add("default", "large", nil)
		e.addWorkers(key, 501, metav1.Now())
		if o := e.passes(key)[key]; !stalled(o, infrav1.TooManyNodesReason, "501 workers") || e.asked("POST") != 0 {
			e.Errorf("creation: asked %d times: %+v", e.asked("POST"), o)
		}
	})
}

// drawn are the names of Nodes and the ids that differ from run to run.
var drawn = regexp.MustCompile(`prod-[\w-]+|(job |"operation"="|"jobID"="|"portalCluster"=")[\w-]+`)

func plain(lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, drawn.ReplaceAllString(strings.TrimPrefix(line, `"level"=0 "msg"=`), "${1}ID"))
	}
	return all
}

// TestScaleDownIsExplained scales from 5 to 3 workers. The events alone answer why each node was drained, who removed it, and why the request was
// sent, and the log alone does too. Both have each change once, although many passes see the drains.
func TestScaleDownIsExplained(t *testing.T) {
	const (
		sum  = "the sum of the replicas is 3, and the number of workers is 5"
		why  = "no Machine has it, and " + sum + ". The portal is expected to remove Node ID next (Newest first)"
		sent = sum + "; drained, and expected to be removed (Newest first): ID, ID"
	)
	live(t, 3, func(f *fixture) {
		f.expect(infrav1.RemovalOrderNewest)
		f.settleAt(4)
		f.settleAt(5)
		f.events()
		f.logs = nil
		f.settleAt(3)
		if diff := cmp.Diff([]string{
			"Normal NodeDrainStarted The provider drains Node ID: " + why,
			"Normal NodeDrainStarted The provider drains Node ID: " + why,
			"Normal NodeDrainEnded The drain of Node ID has ended: " + why,
			"Normal NodeDrainEnded The drain of Node ID has ended: " + why,
			"Normal OperationStarted The portal accepted the scale from 5 to 3 workers (job ID). Reason: " + sent,
			"Normal OperationSucceeded Scaled from 5 to 3 workers",
		}, plain(f.events())); diff != "" {
			f.Errorf("events: %s", diff)
		}
		if diff := cmp.Diff([]string{
			`"Began to drain the Node" "Machine"="" "Node"="ID" "why"="` + why + `"`,
			`"Began to drain the Node" "Machine"="" "Node"="ID" "why"="` + why + `"`,
			`"Recorded that the drain has ended" "Machine"="" "Node"="ID" "why"="` + why + `"`,
			`"Recorded that the drain has ended" "Machine"="" "Node"="ID" "why"="` + why + `"`,
			`"Sending a request to the portal" "operation"="ID" "type"="scale" "target"="3" "portalCluster"="ID" "why"="` + sent + `"`,
			`"The portal accepted the request" "operation"="ID" "type"="scale" "target"="3" "portalCluster"="ID" "jobID"="ID" "createdID"=""`,
		}, plain(f.logs)); diff != "" {
			f.Errorf("log: %s", diff)
		}
	})
}

// TestLostScaleIsExplained cuts the connection when a scale was sent. One event names the request and its reason, although many passes wait for
// the result, and the request that is sent again has its own.
func TestLostScaleIsExplained(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Method: "POST", Path: routeScale, Count: 1, Cut: true})
		f.settleAt(4)
		const why = "Reason: the sum of the replicas is 4, and the number of workers is 3"
		got := f.events()
		for i, words := range [][]string{
			{"Warning " + infrav1.AnswerLostReason, "from 3 to 4 workers", why},
			{"Normal " + infrav1.EventOperationStarted, "4 workers", why},
			{"Normal " + infrav1.EventOperationSucceeded, "4 workers"},
		} {
			if len(got) != 3 || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(got[i], word) }) {
				f.Fatalf("events %q, want %q", got, words)
			}
		}
	})
}
