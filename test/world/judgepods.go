// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// pods is what the judge remembers to decide whether a scale-down harmed Pods that it must not harm.
type pods struct {
	births   map[string]birth // of Nodes, by machine
	removed  map[string]bool  // machines that are gone
	orders   []recordedOrder
	job      []emulator.LogEntry // removals of the scale job that runs
	personal bool                // that job is a person's on the portal's pages
	untold   int                 // removals that killed Pods, of an operation that has not ended
	killed   int                 // the same, of those of which the provider has to tell
	hasty    map[string]bool     // Nodes whose last Machine lets drains end early
	begun    map[string]bool     // Nodes whose drain is under way, as Machines and marks show
	cordons  map[string]int      // Nodes that are cordoned, by UID: in how many looks no drain explained it, or explained
	drains   map[string]bool     // that have begun: UIDs of Nodes and Machines
}

// birth is when a Node joined, and which operation made it, as far as the provider has noted that.
type birth struct {
	at    time.Time
	batch string
}

// recordedOrder is the order of removal that the provider has recorded from a time on.
type recordedOrder struct {
	order string
	from  time.Time
}

func newPods() pods {
	return pods{
		births: map[string]birth{}, removed: map[string]bool{}, drains: map[string]bool{},
		hasty: map[string]bool{}, begun: map[string]bool{}, cordons: map[string]int{},
	}
}

func (p *pods) lookAtNode(n *corev1.Node) {
	p.births[machineOf(n)] = birth{n.CreationTimestamp.Time, n.Annotations[infrav1.BatchAnnotation]}
}

// lookAtRecord notes the order that the provider has recorded.
func (p *pods) lookAtRecord(annotations map[string]string) {
	var record struct {
		RemovalOrder struct {
			Order string `json:"order"`
		} `json:"removalOrder"`
	}
	_ = json.Unmarshal([]byte(annotations[infrav1.RecordAnnotation]), &record) // empty until the provider has written a record
	if n := len(p.orders); n == 0 || p.orders[n-1].order != record.RemovalOrder.Order {
		p.orders = append(p.orders, recordedOrder{record.RemovalOrder.Order, time.Now()})
	}
}

func (p *pods) orderAt(at time.Time) (order string) {
	for _, o := range p.orders {
		if !o.from.After(at) {
			order = o.order
		}
	}
	return order
}

// orderKnown reports whether the provider knew in which order the portal removes workers. Without a record it expects the newest first. It
// cannot know a random order.
func orderKnown(portal emulator.VictimOrder, recorded string) bool {
	switch portal {
	case emulator.VictimsNewest:
		return recorded == "" || recorded == "Newest"
	case emulator.VictimsOldest:
		return recorded == "Oldest"
	}
	return false
}

// ambiguous reports whether the provider could not know that the portal would remove this node: another node of the same operation, or of the
// same second, stays.
func (p *pods) ambiguous(machine string) bool {
	born, known := p.births[machine]
	for other, b := range p.births {
		if known && other != machine && !p.removed[other] && (b.batch == born.batch || b.at.Equal(born.at)) {
			return true
		}
	}
	return false
}

// lookAtRemoval judges the removals of a scale job when it has ended.
func (j *judge) lookAtRemoval(e emulator.LogEntry) {
	switch {
	case e.Removal != nil && e.Removal.By == emulator.JobScaleCluster:
		j.job = append(j.job, e)
	case e.Removal != nil:
		j.removed[e.Removal.Machine] = true
	case e.Object == "cluster" && e.From == string(emulator.ClusterScaling):
		for _, one := range j.job {
			j.removed[one.Removal.Machine] = true
		}
		for _, one := range j.job {
			if len(one.Removal.Pods) > 0 && !j.personal {
				j.judgeRemoval(one)
			}
		}
		j.job = nil
	}
}

func (j *judge) judgeRemoval(e emulator.LogEntry) {
	if j.hasty[e.ID] {
		return
	}
	j.untold++
	if portal := j.Portal.VictimOrder(); orderKnown(portal, j.orderAt(j.asked)) && !j.ambiguous(e.Removal.Machine) {
		j.wrong("killed", "node %s was removed, and the order, %s, was known: %s", e.ID, portal, e.Removal)
	}
}

// tells counts the killed Pods of which the provider has to tell: those of an operation that has ended before the user deletes the cluster.
func (j *judge) tells(cp *infrav1.PortalControlPlane) {
	if cp.DeletionTimestamp == nil {
		if state, err := operation.Load(cp); err != nil || state.Op() != nil {
			return
		}
		j.killed += j.untold
	}
	j.untold = 0
}

// warned checks that a Warning tells of Pods that were killed. A manager that crashes in between cannot.
func (j *judge) warned() {
	for _, cp := range j.controlPlanes() {
		j.tells(cp)
	}
	if j.killed == 0 || j.crashes > 0 {
		return
	}
	for _, e := range j.events {
		if e.Reason == infrav1.EventUndrainedWorkersRemoved && e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.By, "provider") {
			return
		}
	}
	j.wrong("silent", "%d nodes were removed with Pods on them, and no Warning says so", j.killed)
}

// lookAtDrain judges the provider's own drains.
func (j *judge) lookAtDrain(n *corev1.Node) {
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation) && !n.Spec.Unschedulable {
		j.wrong("drains", "Node %s is marked as drained, and takes Pods", n.Name)
	}
	if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation) {
		j.drainBegins(n.UID, n.Name)
	}
	j.lookAtCordon(n)
}

const (
	cordonLooks = 5  // looks, one a second, in which a new cordon must be explained: core cordons a Node before its Machine shows the drain
	explained   = -1 // a cordon, until the Node takes Pods again
)

// lookAtCordon judges a Node that takes no Pods any more.
func (j *judge) lookAtCordon(n *corev1.Node) {
	looks, marked := j.cordons[string(n.UID)], metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation)
	switch {
	case !n.Spec.Unschedulable, !j.life.exists():
		looks = 0
	case looks == explained:
	case j.begun[n.Name] || marked || j.workloads.cordoned(n.Name):
		looks = explained
	default:
		looks++
	}
	j.cordons[string(n.UID)] = looks
	if looks == cordonLooks {
		j.wrong("cordons", "Node %s was cordoned, and no drain of it is under way", n.Name)
	}
}

// lookAtMachines judges core's drains, which the provider lets begin.
func (j *judge) lookAtMachines() {
	if !j.life.exists() {
		return
	}
	clear(j.begun)
	machines := j.Machines()
	slices.SortStableFunc(machines, func(a, b *clusterv1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, m := range machines { // the last one on a Node is the youngest, also if it is deleted at once
		j.hasty[m.Status.NodeRef.Name] = m.Spec.Deletion.NodeDrainTimeoutSeconds != nil
		if d := m.Status.Deletion; d != nil && !d.NodeDrainStartTime.IsZero() {
			j.drainBegins(m.UID, m.Status.NodeRef.Name)
		}
	}
}

func (j *judge) drainBegins(of types.UID, node string) {
	clusters := j.Portal.Clusters()
	j.begun[node] = true
	if j.drains[string(of)] || len(clusters) == 0 {
		return
	}
	j.drains[string(of)] = true
	c := clusters[len(clusters)-1]
	workers := slices.DeleteFunc(slices.Clone(c.Nodes), func(n emulator.Node) bool { return n.ControlPlane || n.Gone })
	if sums := j.sumsAround(time.Now()); max(c.Size, len(workers)) <= slices.Min(sums) {
		j.wrong("drains", "the drain of %s begins while there are %d workers and %v are wanted (%s)", node, len(workers), sums, c.State)
	}
}
