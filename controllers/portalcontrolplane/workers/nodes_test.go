// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
)

func note(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

func cordon(n *corev1.Node) { n.Spec.Unschedulable = true }

func taint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func nodeWith(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "uid-w", CreationTimestamp: metav1.NewTime(time.Unix(0, 0))}}
	for _, change := range changes {
		change(n)
	}
	return n
}

// TestApplyToNode checks what a write changes on the Node.
func TestApplyToNode(t *testing.T) {
	const now, earlier = "2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z"
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.FixedZone("CEST", 2*60*60))
	theirs := note("their.example/key", "value")
	type changes []func(*corev1.Node)
	type node = claims.Node
	mark := func(n *node) { n.DrainState = claims.DrainState{Cordoned: true, Drained: at} }
	uncordon := func(n *node) { n.DrainState = claims.DrainState{} }
	draining := node{DrainState: claims.DrainState{Cordoned: true, DrainStarted: at.Add(-time.Hour)}}
	tests := map[string]struct {
		seen         node
		change       func(*node)
		before, want changes
	}{
		"mark: core has drained it": {node{}, mark, changes{cordon, theirs}, changes{cordon, theirs, note(infrav1.DrainedAnnotation, now)}},
		"mark: the provider has": {draining, mark, changes{cordon, note(infrav1.DrainStartedAnnotation, earlier)},
			changes{cordon, note(infrav1.DrainedAnnotation, now)}},
		"mark: somebody made it schedulable in between": {node{}, mark, nil, changes{cordon, note(infrav1.DrainedAnnotation, now)}},
		"mark: the autoscaler's taint goes, others stay": {node{}, mark, changes{cordon, taint("their.example/taint"), taint(autoscalerTaint)},
			changes{cordon, taint("their.example/taint"), note(infrav1.DrainedAnnotation, now)}},
		"uncordon: the marks go, and the autoscaler's taint only": {draining, uncordon,
			changes{cordon, theirs, taint("their.example/taint"), taint(autoscalerTaint), note(infrav1.DrainedAnnotation, earlier), note(infrav1.DrainStartedAnnotation, earlier)},
			changes{theirs, taint("their.example/taint")}},
		"uncordon: what is no record of a drain stays": {draining, uncordon,
			changes{cordon, note(scaleDownDisabled, "true"), note(infrav1.ScaleDownDisabledAnnotation, "")},
			changes{note(scaleDownDisabled, "true"), note(infrav1.ScaleDownDisabledAnnotation, "")}},
		"disable scale-down": {node{}, func(n *node) { n.ScaleDownDisabled = true },
			changes{theirs}, changes{theirs, note(scaleDownDisabled, "true"), note(infrav1.ScaleDownDisabledAnnotation, "")}},
		"enable scale-down": {node{ScaleDownDisabled: true}, func(n *node) { n.ScaleDownDisabled = false },
			changes{theirs, note(scaleDownDisabled, "true"), note(infrav1.ScaleDownDisabledAnnotation, "")}, changes{theirs}},
		"enable scale-down: the user has changed it since": {node{ScaleDownDisabled: true}, func(n *node) { n.ScaleDownDisabled = false },
			changes{note(scaleDownDisabled, "false"), note(infrav1.ScaleDownDisabledAnnotation, "")}, changes{note(scaleDownDisabled, "false")}},
		"note the rules of a drain": {node{}, func(n *node) { n.DrainRules = "rules" }, changes{cordon, theirs}, changes{cordon, theirs, note(infrav1.DrainRulesAnnotation, "rules")}},
		"what does not differ stays": {draining, func(*node) {}, changes{theirs, note(infrav1.DrainedAnnotation, "by hand")},
			changes{theirs, note(infrav1.DrainedAnnotation, "by hand")}},
		"all at once": {draining, func(n *node) { mark(n); n.DrainRules, n.ProviderID = "rules", "portal://c/w" }, changes{cordon, note(infrav1.DrainStartedAnnotation, earlier)},
			changes{cordon, note(infrav1.DrainedAnnotation, now), note(infrav1.DrainRulesAnnotation, "rules"),
				func(n *corev1.Node) { n.Spec.ProviderID = "portal://c/w" }}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, want := nodeWith(test.before...), nodeWith(test.want...)
			w := nodeWrite(test.seen, test.change).Node
			for range 2 { // an interrupted pass is repeated
				applyToNode(got, w.Seen, w.Want)
			}
			got.Annotations, want.Annotations = some(got.Annotations), some(want.Annotations)
			if len(got.Spec.Taints) == 0 {
				got.Spec.Taints = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func some(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	return all
}

// TestWritesOfAnotherNode checks that a Node which has only the name of the one that was seen is left alone.
func TestWritesOfAnotherNode(t *testing.T) {
	seen := claims.Node{NodeID: claims.NodeID{Name: "w", UID: "uid-former"}}
	other := nodeWrite(seen, func(n *claims.Node) { n.DrainRules = "rules" })
	for _, step := range []claims.Step{claims.WriteNode, claims.DrainNode, claims.DeleteNode} {
		d := newDraining(t, 0, nodeWith())
		before := d.node()
		other.Step = step
		if err := d.write(other); !apierrors.IsConflict(err) {
			t.Errorf("step %d: %v", step, err)
		}
		if diff := cmp.Diff(before, d.node()); diff != "" {
			t.Errorf("step %d on another Node: %s", step, diff)
		}
	}
}

// TestDeleteNode checks that the Node object is deleted, and that one that is gone is no error.
func TestDeleteNode(t *testing.T) {
	d := newDraining(t, 0, nodeWith(cordon))
	for range 2 {
		if err := d.carryOut(claims.DeleteNode); err != nil {
			t.Error(err)
		}
		if err := d.workload.Get(t.Context(), client.ObjectKey{Name: "w"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Node is there: %v", err)
		}
	}
}

// draining is a workload cluster with one Node without a Machine, and the provider that drains it, one step every five seconds.
type draining struct {
	*testing.T
	workload client.WithWatch
	keeper   Keeper
	timeout  int32 // nodeDrainTimeoutSeconds
	left     []int // Pods, in each step; the last number stays
	err      error // of every step
	steps    int   // so far
	limit    time.Duration
	shown    string // in the last pass
}

func newDraining(t *testing.T, timeout int32, n *corev1.Node, left ...int) *draining {
	t.Helper()
	d := &draining{T: t, timeout: timeout, left: left}
	d.workload = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(n, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}).
		WithInterceptorFuncs(interceptor.Funcs{List: d.list}).Build()
	d.keeper = Keeper{Client: d.workload}
	return d
}

// list answers each step of a drain with Pods that are terminating.
func (d *draining) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return c.List(ctx, list, opts...)
	}
	if deadline, found := ctx.Deadline(); found {
		d.limit = time.Until(deadline)
	}
	if !d.node().Spec.Unschedulable {
		d.Error("Pods are evicted from a Node that takes new ones")
	}
	d.steps++
	if d.err != nil {
		return d.err
	}
	for i := range d.left[min(d.steps, len(d.left))-1] {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i), DeletionTimestamp: ptr.To(metav1.Now())}}
		pods.Items = append(pods.Items, pod)
	}
	return nil
}

// write does one write of a plan.
func (d *draining) write(w claims.Write) (err error) {
	p := &pass.Pass{Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name}}}
	set := clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers-1"}}
	set.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(d.timeout)
	d.shown, err = d.keeper.write(d.Context(), p, d.workload, Members{sets: []clusterv1.MachineSet{set}}, &w)
	return err
}

func (d *draining) carryOut(step claims.Step) error {
	n := claims.Node{NodeID: claims.NodeID{Name: "w", UID: "uid-w"}}
	return d.write(claims.Write{Step: step, Node: claims.Change[claims.Node]{Seen: n, Want: n}})
}

func (d *draining) node() *corev1.Node {
	d.Helper()
	n := &corev1.Node{}
	if err := d.workload.Get(d.Context(), client.ObjectKey{Name: "w"}, n); err != nil {
		d.Fatal(err)
	}
	return n
}

// pass takes a step, and returns what the Node shows afterwards.
func (d *draining) pass() string {
	d.Helper()
	if err := d.carryOut(claims.DrainNode); err != nil {
		return "error"
	}
	n, state := d.node(), ""
	for _, mark := range []struct{ annotation, word string }{{infrav1.DrainStartedAnnotation, "started"}, {infrav1.DrainedAnnotation, "drained"}} {
		if _, found := n.Annotations[mark.annotation]; found {
			state += mark.word
		}
	}
	if !n.Spec.Unschedulable {
		state += ", takes Pods"
	}
	return state
}

// TestDrainNode takes a Node through the steps of a drain: the cordon first, then evictions, then the mark.
func TestDrainNode(t *testing.T) {
	set := note(clusterv1.OwnerNameAnnotation, "workers-1")
	long := "1999-12-31T00:00:00Z" // a day before synctest's time begins
	const never, passes = time.Hour, 12 * 60
	tests := map[string]struct {
		node    *corev1.Node
		timeout int32
		left    []int
		steps   int           // that evict
		takes   time.Duration // until the mark
	}{
		"no Pods":                                  {nodeWith(set), 0, []int{0}, 1, 5 * time.Second},
		"three steps":                              {nodeWith(set), 0, []int{25, 15, 0}, 3, 15 * time.Second},
		"blocked, and no timeout":                  {nodeWith(set), 0, []int{1}, passes - 1, never},
		"blocked, until the timeout":               {nodeWith(set), 60, []int{1}, 12, time.Minute},
		"blocked, and its MachineDeployment gone":  {nodeWith(note(clusterv1.OwnerNameAnnotation, "former-1")), 60, []int{1}, passes - 1, never},
		"blocked, and never held by a Machine":     {nodeWith(), 60, []int{1}, passes - 1, never},
		"its Machine was excluded from drains":     {nodeWith(note(infrav1.DrainRulesAnnotation, drain.Rules{Excluded: true}.String())), 0, []int{1}, 0, 5 * time.Second},
		"cordoned by a user already":               {nodeWith(set, cordon), 0, []int{0}, 1, 5 * time.Second},
		"went on under another manager":            {nodeWith(set, cordon, note(infrav1.DrainStartedAnnotation, long)), 0, []int{3, 0}, 2, 5 * time.Second},
		"went on, and the timeout is over":         {nodeWith(set, cordon, note(infrav1.DrainStartedAnnotation, long)), 60, []int{3}, 1, 0},
		"drained, then made schedulable: again":    {nodeWith(set, note(infrav1.DrainedAnnotation, long)), 0, []int{4, 0}, 2, 10 * time.Second},
		"started, then made schedulable: again":    {nodeWith(set, note(infrav1.DrainStartedAnnotation, long)), 60, []int{1}, 12, time.Minute},
		"a person has written no time: as started": {nodeWith(set, cordon, note(infrav1.DrainStartedAnnotation, "yes")), 0, []int{1, 0}, 2, 5 * time.Second},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDraining(t, test.timeout, test.node, test.left...)
				began, state := time.Now(), ""
				for ; time.Since(began) < never; time.Sleep(5 * time.Second) {
					steps := d.steps
					if state = d.pass(); state == "drained" {
						break
					}
					if state != "started" {
						t.Fatalf("after %s: %s", time.Since(began), state)
					}
					if evicts := d.steps > steps; evicts != strings.Contains(d.shown, "default/web-0") {
						t.Errorf("after %s Pods are evicted: %t, shown as left: %q", time.Since(began), evicts, d.shown)
					}
				}
				if d.steps != test.steps {
					t.Errorf("%d steps, want %d", d.steps, test.steps)
				}
				if took := time.Since(began); took != test.takes || (state == "drained") != (took < never) {
					t.Errorf("%s after %s, want it after %s", state, took, test.takes)
				}
				if d.steps > 0 && d.limit != evictTimeout {
					t.Errorf("a step may take %s", d.limit)
				}
			})
		})
	}
}

// TestDrainNodeFails checks that a step that fails is reported, ends neither the pass nor the drain, and the next one goes on.
func TestDrainNodeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDraining(t, 0, nodeWith(), 0)
		d.err = errors.New("no quorum")
		for i, want := range []string{"started", "started", "started", "drained"} {
			if i == 3 {
				d.err = nil
			}
			if got := d.pass(); got != want || strings.Contains(d.shown, "no quorum") != (i == 1 || i == 2) {
				t.Errorf("pass %d: %s, want %s; the drain waits for %q", i, got, want, d.shown)
			}
		}
	})
}

// TestDrainRules checks whose rules count for the drain of a Node: those that its last Machine noted, else those of its pool, or
// of the MachineSet that held it.
func TestDrainRules(t *testing.T) {
	set := func(name string, seconds *int32) (ms clusterv1.MachineSet) {
		ms.Name, ms.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = name, seconds
		ms.Spec.Template.Labels = map[string]string{"set": name}
		return ms
	}
	d := Members{sets: []clusterv1.MachineSet{set("a-1", ptr.To[int32](60)), set("b-1", nil)}}
	pooled := Members{sets: d.sets, pool: &pool{infra: &infrav1.PortalMachinePool{}}}
	pooled.pool.infra.Spec.ProviderIDList = []string{"id-w"}
	pooled.pool.machinePool.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](30)
	held, noted := note(clusterv1.OwnerNameAnnotation, "a-1"), note(infrav1.DrainRulesAnnotation, drain.Rules{TimeoutSeconds: 90}.String())
	named := func(n *corev1.Node) { n.Spec.ProviderID = "id-w" }
	tests := map[string]struct {
		members Members
		node    *corev1.Node
		want    drain.Rules
	}{
		"never held":                           {d, nodeWith(), drain.Rules{}},
		"held by a MachineSet":                 {d, nodeWith(held), drain.Rules{Labels: map[string]string{"set": "a-1"}, TimeoutSeconds: 60}},
		"held by one without a timeout":        {d, nodeWith(note(clusterv1.OwnerNameAnnotation, "b-1")), drain.Rules{Labels: map[string]string{"set": "b-1"}}},
		"held by one that is gone":             {d, nodeWith(note(clusterv1.OwnerNameAnnotation, "former-1")), drain.Rules{}},
		"its last Machine left a note":         {d, nodeWith(held, noted), drain.Rules{TimeoutSeconds: 90}},
		"a user has destroyed the note":        {d, nodeWith(held, note(infrav1.DrainRulesAnnotation, "x")), drain.Rules{Labels: map[string]string{"set": "a-1"}, TimeoutSeconds: 60}},
		"of the pool now, of a Machine before": {pooled, nodeWith(held, noted, named), drain.Rules{TimeoutSeconds: 30}},
	}
	for title, test := range tests {
		if got := test.members.drainRules(test.node); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", title, got, test.want)
		}
	}
}
