// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// The files tale_*_test.go have short lives, each of which is about one promise: what users see, and what the portal is asked.

// tale lives a life without crashes, from one seed, or from WORLD_SEED. What it checks holds for each seed.
func tale(t *testing.T, live func(w *World), others ...emulator.User) {
	t.Helper()
	taleWith(t, Options{Portal: QuickPortal()}, live, others...)
}

func taleWith(t *testing.T, o Options, live func(w *World), others ...emulator.User) {
	t.Helper()
	o.Seed = 39
	if s := os.Getenv("WORLD_SEED"); s != "" {
		var err error
		if o.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	o.Portal.Users = append(o.Portal.Users, others...)
	seeded(t, o, live)
}

// The objects of the cluster, to be read.
func theCluster() *clusterv1.Cluster { return &clusterv1.Cluster{ObjectMeta: named(name)} }
func theWorkers() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: named(name)}
}
func thePortalCluster() *infrav1.PortalCluster {
	return &infrav1.PortalCluster{ObjectMeta: named(name)}
}
func theControl() *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{ObjectMeta: named(name)}
}

// read reads the object from the store.
func read[T client.Object](w *World, obj T) T {
	w.Helper()
	if !w.Get(client.ObjectKeyFromObject(obj), obj) {
		w.Fatalf("%T %s does not exist", obj, obj.GetName())
	}
	return obj
}

// there reports whether the object exists.
func (w *World) there(obj client.Object) bool {
	w.Helper()
	return w.Get(client.ObjectKeyFromObject(obj), obj)
}

// condition returns the condition of an object, such as "False Draining: …".
func (w *World) condition(obj client.Object, kind string) string {
	w.Helper()
	if !w.there(obj) {
		return "no object"
	}
	c := conditions.Get(obj.(conditions.Getter), kind)
	if c == nil {
		return "no condition"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// See waits for a condition that begins with a text, such as "False Draining", and has the other texts.
func (w *World) See(obj client.Object, kind, begin string, texts ...string) {
	w.Helper()
	w.Until(fmt.Sprintf("%T: %s: %s", obj, kind, begin), Patience, func() string {
		got := w.condition(obj, kind)
		if missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(got, text) }); !strings.HasPrefix(got, begin) || len(missing) > 0 {
			return fmt.Sprintf("it is %q, without %q", got, missing)
		}
		return ""
	})
}

// Gone waits until the objects do not exist.
func (w *World) Gone(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		w.Until(fmt.Sprintf("%T %s is gone", o, o.GetName()), Patience, func() string {
			if w.there(o) {
				return "it exists"
			}
			return ""
		})
	}
}

// Settle waits until the cluster has so many Machines, each on a node of its own, and no other workers, and all is well.
func (w *World) Settle(machines int) {
	w.Helper()
	w.SettleOn(machines, machines)
}

// SettleOn waits as Settle does. The cluster also has workers without Machines.
func (w *World) SettleOn(machines, workers int) {
	w.Helper()
	w.Until(fmt.Sprintf("settled with %d Machines on %d workers", machines, workers), Patience, func() string { return w.unsettled(machines, workers) })
}

func (w *World) unsettled(machines, workers int) string {
	for _, md := range list[clusterv1.MachineDeployment](w, w.management, schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinedeployments"}) {
		if md.Status.ObservedGeneration != md.Generation {
			return "core has not seen MachineDeployment " + md.Name
		}
	}
	all, nodes, used := w.Machines(), w.Workers(), map[string]bool{}
	for _, m := range all {
		if node := m.Status.NodeRef.Name; conditions.IsTrue(m, clusterv1.MachineReadyCondition) && slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == node }) {
			used[node] = true
		}
	}
	if got, want := [4]int{len(all), len(used), len(nodes), w.size()}, [4]int{machines, machines, workers, workers}; got != want {
		return fmt.Sprintf("Machines, Ready ones on nodes, workers and size are %v, want %v", got, want)
	}
	for _, c := range []struct {
		of   client.Object
		kind string
	}{{theCluster(), clusterv1.ClusterAvailableCondition}, {theControl(), infrav1.WorkersReadyCondition}} {
		if got := w.condition(c.of, c.kind); !strings.HasPrefix(got, "True") {
			return c.kind + ": " + got
		}
	}
	return w.strayNodes()
}

// size is that of the only portal cluster, or -1.
func (w *World) size() int {
	if clusters := w.Portal.Clusters(); len(clusters) == 1 {
		return clusters[0].Size
	}
	return -1
}

// strayNodes names Nodes that are cordoned or marked, and machines of the portal without a Node.
func (w *World) strayNodes() string {
	var names, have []string
	for _, i := range w.Portal.Instances() {
		names = append(names, i.Name)
	}
	for _, n := range w.nodes() {
		have = append(have, n.Name)
		_, started := n.Annotations[infrav1.DrainStartedAnnotation]
		if _, drained := n.Annotations[infrav1.DrainedAnnotation]; n.Spec.Unschedulable || started || drained {
			return fmt.Sprintf("Node %s is cordoned, or has marks: %v", n.Name, n.Annotations)
		}
	}
	if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(have))) {
		return fmt.Sprintf("the Nodes are %v, and the portal runs %v", have, names)
	}
	return ""
}

// Workers are the Nodes that are not control nodes, the newest last.
func (w *World) Workers() []*corev1.Node {
	nodes := slices.DeleteFunc(w.nodes(), func(n *corev1.Node) bool { _, control := n.Labels[controlPlaneLabel]; return control })
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return nodes
}

// uids of the worker Nodes.
func (w *World) uids() (all []string) {
	for _, n := range w.Workers() {
		all = append(all, string(n.UID))
	}
	slices.Sort(all)
	return all
}

// cordoned are the names of the worker Nodes that are unschedulable.
func (w *World) cordoned() (all []string) {
	for _, n := range w.Workers() {
		if n.Spec.Unschedulable {
			all = append(all, n.Name)
		}
	}
	return all
}

// machineNames are the names of all Machines, sorted.
func (w *World) machineNames() (all []string) {
	for _, m := range w.Machines() {
		all = append(all, m.Name)
	}
	slices.Sort(all)
	return all
}

// newestMachine is the one that core deletes next, by its order of deletion Newest.
func (w *World) newestMachine() *clusterv1.Machine {
	return slices.MaxFunc(w.Machines(), func(a, b *clusterv1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// Equal checks a value.
func Equal[T any](w *World, what string, got, want T) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Explain()
		w.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// words names what the portal was asked, and how it answered unless it accepted, such as "create", "scale" or "upgrade 422".
func (w *World) words() string {
	var all []string
	for _, e := range w.Portal.RequestLog() {
		if !e.IsChange() {
			continue
		}
		word := e.Route[strings.LastIndex(e.Route, "/")+1:]
		switch {
		case e.Method == "DELETE":
			word = "delete"
		case word == "kubernetes-clusters":
			word = "create"
		}
		if e.Status/100 != 2 {
			word += fmt.Sprint(" ", e.Status)
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

// Asked checks what the portal was asked since the world began.
func (w *World) Asked(words ...string) {
	w.Helper()
	Equal(w, "requests", w.words(), strings.Join(words, ", "))
}

// resizes are the old and the new size of each scale that the portal began.
func (w *World) resizes() (all [][2]int) {
	for _, e := range w.Portal.RequestLog() {
		var from, to int
		if n, _ := fmt.Sscanf(e.Detail, "size %d → %d", &from, &to); n == 2 {
			all = append(all, [2]int{from, to})
		}
	}
	return all
}

// KilledNoPod checks that the portal removed so many nodes by scaling down, each of them cordoned and empty.
func (w *World) KilledNoPod(nodes int) {
	w.Helper()
	removed := 0
	for _, e := range w.Portal.RequestLog() {
		if e.Removal == nil || e.Removal.By != emulator.JobScaleCluster {
			continue
		}
		removed++
		if !e.Removal.Cordoned || len(e.Removal.Pods) > 0 {
			w.Explain()
			w.Fatalf("node %s was removed in use: %+v", e.ID, e.Removal)
		}
	}
	Equal(w, "nodes that were removed", removed, nodes)
}

// The routes of faults.
const (
	createRoute  = "/kubernetes-clusters"
	scaleRoute   = "/kubernetes-clusters/*/scale"
	upgradeRoute = "/kubernetes-clusters/*/upgrade"
)

// Strike arms faults of the portal for POST, unless they say otherwise.
func (w *World) Strike(faults ...emulator.Fault) {
	w.Helper()
	for _, f := range faults {
		if f.Method == "" && f.Path != "" {
			f.Method = "POST"
		}
		w.note("the portal gets fault %s %s", f.ID, f.Path)
		w.must(w.Portal.Inject(f))
	}
}

// Hit waits until the fault has affected a call.
func (w *World) Hit(fault string) {
	w.Helper()
	w.Until("fault "+fault+" hits", Patience, func() string {
		if slices.ContainsFunc(w.Portal.Faults(), func(f emulator.FaultState) bool { return f.Fault.ID == fault && f.Hits > 0 }) {
			return ""
		}
		return "no call was affected"
	})
}

// Heal removes a fault.
func (w *World) Heal(fault string) {
	w.Helper()
	w.note("the portal loses fault %s", fault)
	Equal(w, "fault "+fault+" is removed", w.Portal.RemoveFault(fault), true)
}

// Decide makes the decision about the last operation of the control plane, as a person does.
func (w *World) Decide(decision infrav1.Decision) {
	w.Helper()
	state, err := operation.Load(read(w, theControl()))
	w.must(err)
	Edit(w, key, theControl(), func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, decision.About(state.Last.ID))
	})
}

// machineSets of the namespace.
func (w *World) machineSets() []*clusterv1.MachineSet {
	return list[clusterv1.MachineSet](w, w.management, schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinesets"})
}

// Pause pauses the Cluster, and waits until core and the provider have noticed. Resume ends it.
func (w *World) Pause() {
	w.Helper()
	Edit(w, key, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	w.See(theControl(), clusterv1.PausedCondition, "True")
	w.See(theWorkers(), clusterv1.PausedCondition, "True")
}

// Resume ends a pause.
func (w *World) Resume() {
	Edit(w, key, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
}

// SetVersion sets the version of the control plane.
func (w *World) SetVersion(version string) {
	w.Helper()
	Edit(w, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
}

// Upgraded waits until all of the cluster runs the version, as its conditions say.
func (w *World) Upgraded(version string) {
	w.Helper()
	w.Until("runs "+version, Patience, func() string { return diff(read(w, theControl()).Status.Version, version) })
	w.See(theControl(), infrav1.VersionUpToDateCondition, "True")
}

func diff(got, want string) string {
	if got == want {
		return ""
	}
	return "it is " + got
}

// End deletes the Cluster, and waits until nothing is left.
func (w *World) End() {
	w.Helper()
	w.Delete(theCluster())
	w.Until("nothing is left", Patience, w.Left)
}

// patchNode changes a Node, as kubectl or a controller in the workload cluster does.
func (w *World) patchNode(node string, change func(*corev1.Node)) {
	w.Helper()
	for _, one := range w.workloads.all {
		n := &corev1.Node{}
		w.must(one.client.Get(context.Background(), client.ObjectKey{Name: node}, n))
		before := n.DeepCopy()
		change(n)
		w.must(one.client.Patch(context.Background(), n.DeepCopy(), client.MergeFrom(before)))
		w.must(one.client.Status().Patch(context.Background(), n, client.MergeFrom(before)))
	}
}

// setNodeCondition writes a condition of a Node, as a kubelet or a problem detector does.
func (w *World) setNodeCondition(node string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.Helper()
	for _, id := range w.workloads.ids() {
		w.must(w.workloads.mark(id, node, kind, status))
	}
}
