// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	// bindGrace is how long a Ready node may be without a Machine during an upgrade while a Machine waits for one. The portal
	// also replaces the API server during an upgrade, and both managers need a retry to notice.
	bindGrace = 20 * time.Second
	// shieldGrace is how long after the beginning of an upgrade a MachineHealthCheck may still act on what it read before.
	shieldGrace = 5 * time.Second
)

// harm holds what the judges of this file remember to decide whether Pods or Machines came to harm.
type harm struct {
	births     map[string]time.Time // creation of worker Nodes, by machine
	removed    map[string]bool      // machines that are gone
	orders     []recordedOrder
	idle       map[string]time.Time // since when each Ready node has had no Machine while a Machine waits for one, by UID
	upgrading  time.Time            // since when the portal has been upgrading, zero if it is not
	remediated map[string]string    // the remediated Machine of each Node that has not been healthy since, by UID
	hasty      map[string]bool      // MachineDeployments whose drains end early
	holders    map[string]string    // the MachineDeployment of the last Machine that held each node before its deletion
}

// recordedOrder is the order of removal that the provider expects from a time on.
type recordedOrder struct {
	order string
	from  time.Time
}

func newHarm() harm {
	return harm{births: map[string]time.Time{}, removed: map[string]bool{}, idle: map[string]time.Time{}, remediated: map[string]string{},
		hasty: map[string]bool{}, holders: map[string]string{}}
}

// orderKnown reports whether the provider knew in which order the portal removes workers, going by what the provider had
// recorded. Without a record the provider expects the portal to remove the newest first. It cannot know a random order.
func orderKnown(portal emulator.VictimOrder, recorded string) bool {
	switch portal {
	case emulator.VictimsNewest:
		return recorded == "" || recorded == "Newest"
	case emulator.VictimsOldest:
		return recorded == "Oldest"
	}
	return false
}

// orderIn reads the recorded order of removal from the annotations of a PortalControlPlane.
func orderIn(annotations map[string]string) string {
	var record struct {
		RemovalOrder struct {
			Order string `json:"order"`
		} `json:"removalOrder"`
	}
	_ = json.Unmarshal([]byte(annotations[infrav1.RecordAnnotation]), &record) // empty until the provider has written a record
	return record.RemovalOrder.Order
}

// orderNoted notes the order that the provider has recorded. Callers hold seen.
func (h *harm) orderNoted(order string, at time.Time) {
	if n := len(h.orders); n == 0 || h.orders[n-1].order != order {
		h.orders = append(h.orders, recordedOrder{order, at})
	}
}

// orderAt returns the order that the provider had recorded at that time.
func (h *harm) orderAt(at time.Time) (order string) {
	for _, o := range h.orders {
		if !o.from.After(at) {
			order = o.order
		}
	}
	return order
}

// ambiguous reports whether the provider could not know that the portal would remove this node: another node of the same
// second stays, and Kubernetes writes creation times in seconds.
func (h *harm) ambiguous(machine string) bool {
	born, known := h.births[machine]
	for other, at := range h.births {
		if known && other != machine && !h.removed[other] && at.Equal(born) {
			return true
		}
	}
	return false
}

// killed returns the removals of one scale job that killed Pods which a drain would have evicted. asked is when the provider asked
// for the job. Only the MachineDeployment that a node belonged to can make its drain end early.
func (h *harm) killed(portal emulator.VictimOrder, asked time.Time, job []emulator.LogEntry) (harmed []emulator.LogEntry) {
	for _, e := range job {
		h.removed[e.Removal.Machine] = true
	}
	if !orderKnown(portal, h.orderAt(asked)) {
		return nil
	}
	for _, e := range job {
		// Pods of a node without a kubelet stay in deletion: a drain does not wait for them.
		undrained := len(e.Removal.Pods) > 0 || e.Removal.Ready && len(e.Removal.Terminating) > 0
		if undrained && !h.ambiguous(e.Removal.Machine) && !h.hasty[h.holders[e.ID]] {
			harmed = append(harmed, e)
		}
	}
	return harmed
}

// judgeRemovals checks the removals in the request log's new entries of this account. Callers hold seen.
func (l *life) judgeRemovals(entries []emulator.LogEntry) {
	var asked time.Time
	var job []emulator.LogEntry
	for _, e := range entries {
		switch {
		case isScale(e) && e.Code == "":
			asked = e.Time
		case e.Removal != nil && e.Removal.By == emulator.JobScaleCluster:
			job = append(job, e)
		case e.Removal != nil:
			l.removed[e.Removal.Machine] = true
		case e.Object == "cluster" && e.From == string(emulator.ClusterScaling):
			for range job {
				l.count("nodes removed by scaling")
			}
			for _, e := range l.killed(l.victims, asked, job) {
				l.wrong("%s node %s was removed, and the portal's order was known: %s", e.Removal.At.Format("15:04:05.000"), e.ID, e.Removal)
			}
			job = nil
		}
	}
}

// remediationSeen notes that a MachineHealthCheck remediates a Machine. The Machine's node may cost one Machine until it is
// healthy again, and none while the portal upgrades nodes. Callers hold seen.
func (l *life) remediationSeen(m *clusterv1.Machine) {
	node := l.nodes[m.Status.NodeRef.Name]
	l.logf("  Machine %s on %s is remediated", m.Name, node.Name)
	l.count("Machines remediated")
	if before := l.remediated[string(node.UID)]; before != "" && node.UID != "" {
		l.wrong("Machine %s was remediated, and so was Machine %s on the same Node %s, which has not been healthy since", m.Name, before, node.Name)
	}
	if node.UID != "" && !isHealthy(&node) {
		l.remediated[string(node.UID)] = m.Name
	}
	decided := conditions.GetLastTransitionTime(m, clusterv1.MachineOwnerRemediatedCondition)
	if !l.upgrading.IsZero() && decided != nil && decided.After(l.upgrading.Add(shieldGrace)) {
		l.wrong("Machine %s on %s was remediated while the portal upgraded the cluster", m.Name, m.Status.NodeRef.Name)
	}
}

// remediates reports whether core deletes the Machine because of a MachineHealthCheck.
func remediates(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// trouble is a node condition beyond Kubernetes' own that MachineHealthChecks look at.
const trouble corev1.NodeConditionType = "DiskTrouble"

// isHealthy reports whether a MachineHealthCheck of this package finds nothing wrong with a Node.
func isHealthy(n *corev1.Node) bool {
	return isReady(n) && !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == trouble && c.Status == corev1.ConditionTrue
	})
}

// watchUpgrades calls upgradeSeen twice a second.
func (l *life) watchUpgrades(done <-chan struct{}) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			cluster := l.portalCluster()
			l.seen.Lock()
			l.upgradeSeen(cluster != nil && cluster.State == emulator.ClusterUpgrading, now)
			l.seen.Unlock()
		}
	}
}

// upgradeSeen checks that no node is idle for longer than bindGrace during an upgrade while a Machine waits for one. So at most
// as many Machines are unavailable as the portal has removed nodes. Callers hold seen.
func (l *life) upgradeSeen(upgrading bool, now time.Time) {
	if !upgrading {
		l.upgrading = time.Time{}
		clear(l.idle)
		return
	}
	if l.upgrading.IsZero() {
		l.upgrading = now
	}
	idle, waiting := idleNodes(l.nodes, l.machines, l.mismatched, l.sums.now()-l.sums.of(ofPool))
	l.leavePool(idle)
	for uid := range l.idle {
		if idle[uid] == "" || waiting == 0 {
			delete(l.idle, uid)
		}
	}
	if waiting == 0 {
		return
	}
	for uid, node := range idle {
		since, known := l.idle[uid]
		switch {
		case !known:
			l.idle[uid] = now
		case now.Sub(since) > bindGrace:
			l.wrong("Node %s has been Ready without a Machine for %s during an upgrade, while %d Machines wait for a node", node, now.Sub(since).Round(time.Second), waiting)
			l.idle[uid] = now.Add(time.Hour) // report it once
		}
	}
}

// idleNodes returns the names, by UID, of the worker nodes that can take Pods and that no Machine holds. It also returns how
// many of the wanted Machines have no node that can take Pods. Machines that are being deleted hold their node but do not wait
// for one. Machines of the mismatched MachineDeployment get no node.
func idleNodes(nodes map[string]corev1.Node, machines map[string]clusterv1.Machine, mismatched string, wanted int) (idle map[string]string, waiting int) {
	live, served := 0, 0
	idle, usable := map[string]string{}, map[string]bool{}
	for name, n := range nodes {
		if usable[name] = isReady(&n) && !n.Spec.Unschedulable && !metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation); usable[name] {
			idle[string(n.UID)] = name
		}
	}
	for _, m := range machines {
		node, holds := nodes[m.Status.NodeRef.Name]
		if holds {
			delete(idle, string(node.UID))
		}
		for _, n := range nodes { // core has not looked up the Node yet
			if m.Spec.ProviderID != "" && n.Spec.ProviderID == m.Spec.ProviderID {
				delete(idle, string(n.UID))
				node, holds = n, true
			}
		}
		foreign := mismatched != "" && m.Labels[clusterv1.MachineDeploymentNameLabel] == mismatched
		if m.DeletionTimestamp.IsZero() && !foreign {
			live++
			if holds && usable[node.Name] {
				served++
			}
		}
	}
	return idle, max(0, min(live, wanted)-served)
}
