// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// judge looks at everything after each step, and notes what must not be:
//
//   - sizes: the portal is asked for a sum of replicas that was wanted within lag or, on the way down, for a size between the present one and
//     that sum.
//   - unasked: the portal is asked to scale, and the sum has not changed since the creation.
//   - twice: two portal clusters of one name, or two that run at a time.
//   - deleted: a portal cluster that runs is deleted, and no user has deleted the Cluster.
//   - specification: a request breaks the specification, apart from the lookup by name.
//   - budget: the portal answers 429, and no fault and no neighbor explains it.
//   - nodes: the Node object of a machine that the portal runs is deleted.
//   - drains: a drain begins although no more workers exist than are wanted, or a drained Node takes Pods again.
//   - cordons: a Node is cordoned, and neither a drain nor the portal explains it.
//   - killed: a scale-down kills Pods although the order of removal was known (judgepods.go).
//   - silent: a scale-down kills Pods, and no Warning says so (judgepods.go).
//   - conditions: a condition has no reason, or is not True and has no message.
//   - blame: a condition names a cause that has not struck (judgeblame.go).
//   - secrets: a condition shows a secret.
//   - rest: a cluster at rest is changed, or written to again and again (settled.go).
//
// Each violation begins with the name of the rule.
type judge struct {
	*World
	life   *life
	wrongs []string
	pods

	entries  int // of the request log that it has seen
	revision uint64
	second   int64

	sums      []span
	outside   bool // a person has changed the size, or deleted the cluster, on the portal's pages
	byPerson  bool // the last request was that person's
	asked     time.Time
	made      time.Time // when the creation of the last portal cluster began
	coded     time.Time // when a one-time code was accepted
	codeTwice bool      // a new manager has sent the same code again. A portal accepts it once

	named map[string]string // the names of portal clusters, by id
	alive map[string]bool   // those that are not deleted and have not failed
	nodes map[string]string // Node objects that were there, by machine
	lost  map[string]bool   // machines whose Node object was missing in the last look
}

// span is for how long a sum of replicas was wanted.
type span struct {
	sum      int
	from, to time.Time // to is zero while it is wanted
}

// codeLasts is how long a one-time code may be in use: three steps of 30 seconds.
const codeLasts = 90 * time.Second

// lag is how old the replicas may be on which a request of the portal is based: storing the intent, calling the portal and storing the answer
// take at most 80 seconds, and the cache is a few seconds late.
const lag = 90 * time.Second

func newJudge(l *life) *judge {
	return &judge{
		World: l.World, life: l, named: map[string]string{}, alive: map[string]bool{}, nodes: map[string]string{}, lost: map[string]bool{}, pods: newPods(),
	}
}

func (j *judge) wrong(rule, format string, args ...any) {
	text := rule + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(j.wrongs, text) {
		j.note("WRONG: %s", text)
		j.wrongs = append(j.wrongs, text)
	}
}

// look is called after each step.
func (j *judge) look() {
	changed := j.management.store.now() != j.revision
	j.revision = j.management.store.now()
	if changed {
		j.lookAtSums()
	}
	var fresh []emulator.LogEntry
	fresh, j.entries = j.Portal.RequestLogFrom(j.entries)
	for _, e := range fresh {
		j.lookAtEntry(e)
	}
	if changed { // after the requests, whose answers the conditions show
		j.lookAtConditions()
	}
	if now := int64(time.Since(j.start) / time.Second); now != j.second {
		j.second = now
		j.lookAtNodes()
		j.lookAtMachines()
	}
}

func (j *judge) lookAtEntry(e emulator.LogEntry) {
	if e.IsRequest() {
		j.byPerson = e.User == pagesUser.ID
		j.lookAtRequest(e)
		return
	}
	var from, to int
	if n, _ := fmt.Sscanf(e.Detail, "size %d → %d", &from, &to); n == 2 && e.Object == "cluster" {
		if j.personal = j.byPerson; j.personal {
			return
		}
		j.lookAtScale()
		again := from == to && j.outside // the provider cannot know that a person has asked for that size already
		if sums := j.sumsAround(j.asked); !again && !allowed(from, to, sums) {
			j.wrong("sizes", "the portal was asked to go from %d to %d workers at %s while %v were wanted", from, to, j.asked.Sub(j.start), sums)
		}
	}
	if e.Object == "cluster" {
		j.lookAtCluster(e)
	}
	j.lookAtRemoval(e)
}

func (j *judge) lookAtRequest(e emulator.LogEntry) {
	neighbors := func(f emulator.Fault) bool { return f.OthersPerMinute > 0 }
	switch {
	case e.Violation != "" && !(e.Method == http.MethodGet && strings.HasSuffix(e.Path, "/kubernetes-clusters")):
		j.wrong("specification", "%s", e)
	case e.Status == http.StatusTooManyRequests && e.Fault == "" && !j.outside && !slices.ContainsFunc(j.life.plan.Troubles, neighbors):
		j.wrong("budget", "%s", e)
	case e.Method == http.MethodPost && strings.HasSuffix(e.Route, "/scale") && !j.byPerson:
		j.asked = e.Time
	case e.Route == atVerify.path && e.Status < http.StatusMultipleChoices:
		j.coded = e.Time
	case e.Route == atVerify.path && e.Time.Sub(j.coded) < codeLasts:
		j.codeTwice = true
	}
}

func (j *judge) lookAtCluster(e emulator.LogEntry) {
	switch e.To {
	case string(emulator.ClusterCreating):
		name, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, "name="), " ")
		for id := range j.alive {
			j.wrong("twice", "%s was created while %s exists", name, j.named[id])
		}
		j.named[e.ID], j.alive[e.ID], j.made = name, true, e.Time
	case string(emulator.ClusterFailed), "deleted":
		delete(j.alive, e.ID)
	case string(emulator.ClusterDeleting):
		if e.From != string(emulator.ClusterFailed) && j.life.exists() && !j.byPerson {
			j.wrong("deleted", "%s, which was %s", j.named[e.ID], e.From)
		}
	}
}

// lookAtScale judges that the provider asks for another size. It must not if the replicas have added up to the same since the creation.
func (j *judge) lookAtScale() {
	last, around := j.sums[len(j.sums)-1], j.sumsAround(j.made)
	if len(around) == 1 && !last.from.After(j.made) && !j.outside {
		j.wrong("unasked", "the portal was asked to scale at %s, and %d workers were wanted since %s",
			j.asked.Sub(j.start), last.sum, last.from.Sub(j.start))
	}
}

func (j *judge) lookAtSums() {
	sum := 0
	for _, md := range j.life.deployments() {
		sum += int(*md.Spec.Replicas)
	}
	if n := len(j.sums); n == 0 || j.sums[n-1].sum != sum {
		if n > 0 {
			j.sums[n-1].to = time.Now()
		}
		j.sums = append(j.sums, span{sum: sum, from: time.Now()})
	}
}

// sumsAround returns the sums on which a request of that time may be based.
func (j *judge) sumsAround(at time.Time) (all []int) {
	for _, s := range j.sums {
		if !s.from.After(at) && (s.to.IsZero() || !s.to.Before(at.Add(-lag))) {
			all = append(all, s.sum)
		}
	}
	return all
}

// allowed reports whether the provider may ask the portal for this change of size.
func allowed(from, to int, sums []int) bool {
	return slices.ContainsFunc(sums, func(sum int) bool { return to == sum || sum < to && to < from })
}

func (j *judge) controlPlanes() []*infrav1.PortalControlPlane {
	return list[infrav1.PortalControlPlane](j.World, j.management, infraResource("portalcontrolplanes"))
}

func (j *judge) lookAtConditions() {
	for _, cp := range j.controlPlanes() {
		j.lookAtRecord(cp.Annotations)
		j.tells(cp)
		j.explained("PortalControlPlane", cp.Status.Conditions)
	}
	for _, pc := range list[infrav1.PortalCluster](j.World, j.management, infraResource("portalclusters")) {
		j.explained("PortalCluster", pc.Status.Conditions)
	}
	for _, m := range list[infrav1.PortalMachine](j.World, j.management, infraResource("portalmachines")) {
		j.explained("PortalMachine", m.Status.Conditions)
	}
}

// fineWhenFalse are the conditions that are True while something goes on.
var fineWhenFalse = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingDownCondition, clusterv1.ScalingUpCondition,
	infrav1.OperationInProgressCondition,
}

// explained checks that each condition says what is waited for.
func (j *judge) explained(kind string, conditions []metav1.Condition) {
	for _, c := range conditions {
		j.blame(kind, c)
		if fine := c.Status == metav1.ConditionTrue || slices.Contains(fineWhenFalse, c.Type); c.Reason == "" || c.Message == "" && !fine {
			j.wrong("conditions", "%s of the %s is %s, reason %q, message %q", c.Type, kind, c.Status, c.Reason, c.Message)
		}
	}
}

// lookAtNodes compares the Node objects with the machines that the portal runs. A Node object may be late by a second.
func (j *judge) lookAtNodes() {
	running, there := map[string]bool{}, map[string]bool{}
	for _, c := range j.Portal.Clusters() {
		one := j.workloads.get(c.ID)
		if one == nil || c.State != emulator.ClusterRunning {
			continue
		}
		for _, m := range c.Nodes {
			running[m.ID] = !m.Gone
		}
		for _, n := range list[corev1.Node](j.World, one.server, schema.GroupResource{Resource: "nodes"}) {
			there[machineOf(n)], j.nodes[machineOf(n)] = true, n.Name
			j.lookAtNode(n)
			j.lookAtDrain(n)
		}
	}
	missing := map[string]bool{}
	for machine := range running {
		if running[machine] && !there[machine] && j.nodes[machine] != "" {
			if missing[machine] = true; j.lost[machine] {
				j.wrong("nodes", "Node %s was deleted, and the portal still runs its machine", j.nodes[machine])
			}
		}
	}
	j.lost = missing
}
