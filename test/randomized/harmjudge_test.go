// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// harm holds what the judges of this file remember to decide whether Pods came to harm.
type harm struct {
	births  map[string]birth // of worker Nodes, by machine
	removed map[string]bool  // machines that are gone
	orders  []recordedOrder
	hasty   map[string]bool   // MachineDeployments whose drains end early
	holders map[string]string // the MachineDeployment of the last Machine that held each node before its deletion
}

// birth is when a Node joined, and which operation made it, as far as the provider has noted that.
type birth struct {
	at    time.Time
	batch string
}

// recordedOrder is the order of removal that the provider expects from a time on.
type recordedOrder struct {
	order string
	from  time.Time
}

func newHarm() harm {
	return harm{births: map[string]birth{}, removed: map[string]bool{}, hasty: map[string]bool{}, holders: map[string]string{}}
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

// ambiguous reports whether the provider could not know that the portal would remove this node: another node of the same operation, or of
// the same second, stays.
func (h *harm) ambiguous(machine string) bool {
	born, known := h.births[machine]
	for other, b := range h.births {
		if known && other != machine && !h.removed[other] && (b.batch == born.batch || b.at.Equal(born.at)) {
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

// trouble is a node condition beyond Kubernetes' own that MachineHealthChecks look at.
const trouble corev1.NodeConditionType = "DiskTrouble"
