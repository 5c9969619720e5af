// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	// passes is how long after a change core may still act on what it read before.
	passes = 10 * time.Second
	// loopWrites is how often our manager may write one object within loopSpan. A controller that writes in every reconcile
	// would write each second. The acts of these histories cause up to 35 writes.
	loopSpan, loopWrites = time.Minute, 50
)

// auditor judges one Cluster by the audit logs of both API servers.
type auditor struct {
	books  books
	report func(format string, args ...any) // called for each violation

	machines, claims map[string]auditObject // after their last write
	nodes            map[string]auditObject
	born             map[string]time.Time // when each Node was created
	pods             map[string]string    // the Node of each Pod
	drains           []*drain             // by core
	ours             []*drain             // by our manager
	holds            []hold
	unset            map[string]time.Time    // when the nodeRef of each Machine was last empty
	doubtful         map[string][]auditEvent // requests that the API server may or may not have carried out, by object
	revisions        map[string][]auditEvent // events whose answers have the same version of an object, which one of them wrote
	managers         []string                // credentials, in the order of their first write
	written          map[string][]time.Time
	counts           map[string]int // writes by client since the last tally
	busiest          int            // most writes of our manager to one object within loopSpan
}

// drain is a drain of a Node. A drain by core begins when our manager removes the pre-drain hook.
type drain struct {
	node, machine string
	from, to      time.Time // to is zero until the drain is over
	surplus       bool      // there were more workers than wanted when it began
}

// books are the portal's request log of one account, and the sums of replicas that users asked for.
type books struct {
	entries []emulator.LogEntry
	sums    *sums
}

func newAuditor(report func(string, ...any)) *auditor {
	return &auditor{
		report:   report,
		machines: map[string]auditObject{}, claims: map[string]auditObject{}, nodes: map[string]auditObject{},
		unset: map[string]time.Time{}, doubtful: map[string][]auditEvent{}, revisions: map[string][]auditEvent{},
		born: map[string]time.Time{}, pods: map[string]string{}, written: map[string][]time.Time{}, counts: map[string]int{},
	}
}

// judge checks the events that both API servers have logged since the last call. It begins with the management cluster, whose
// log shows which drains began.
func (a *auditor) judge(management, workload []auditEvent) {
	management, workload = inOrder(management), inOrder(workload)
	for _, e := range slices.Concat(management, workload) {
		if e.doubtful() {
			a.doubtful[e.object()] = append(a.doubtful[e.object()], e)
		} else if e.version > 0 {
			a.revisions[e.revision()] = append(a.revisions[e.revision()], e)
		}
	}
	defer clear(a.revisions)
	for _, e := range management {
		a.count(e)
		if !e.succeeded() {
			continue
		}
		a.oneManager(e)
		a.machineWritten(e)
		a.claimWritten(e)
	}
	for _, e := range workload {
		a.count(e)
		switch e.On.Resource + "/" + e.On.Subresource {
		case "nodes/":
			a.nodeWritten(e)
		case "pods/", "pods/binding":
			a.podPlaced(e)
		case "pods/eviction":
			a.belongs("the eviction of Pod "+e.On.Name, a.pods[e.On.Namespace+"/"+e.On.Name], e)
		}
	}
	a.loops()
}

// inOrder sorts events by the order in which the writes took effect. An event without a version is placed by the time of its
// answer: no later write to the same object was answered before.
func inOrder(events []auditEvent) []auditEvent {
	type placed struct {
		auditEvent
		version uint64
	}
	all := make([]placed, len(events))
	for i, e := range events {
		all[i] = placed{e, e.version}
	}
	slices.SortStableFunc(all, func(x, y placed) int { return x.Ended.Compare(y.Ended) })
	last := uint64(0)
	for i := range all {
		last = max(last, all[i].version)
		if all[i].version == 0 {
			all[i].version = last
		}
	}
	slices.SortStableFunc(all, func(x, y placed) int { return cmp.Compare(x.version, y.version) })
	sorted := make([]auditEvent, len(all))
	for i := range all {
		sorted[i] = all[i].auditEvent
	}
	return sorted
}

// author returns the event that made a change that e is the first to show. Usually that is e. But if the
// client who sent the field in a request whose outcome is unknown, or whose answer has the same version as e's, that request
// made the change. Of two requests with the same version, one changed nothing, and its answer may come first.
func (a *auditor) author(e auditEvent, who, field string) auditEvent {
	for _, d := range slices.Concat(a.doubtful[e.object()], a.revisions[e.revision()]) {
		if e.who() != who && d.who() == who && d.Received.Before(e.Ended) && bytes.Contains(d.Sent, []byte(`"`+field+`"`)) {
			return d
		}
	}
	return e
}

// settleDoubts drops the doubtful requests for an object if their client has written the object since.
func (a *auditor) settleDoubts(e auditEvent) {
	a.doubtful[e.object()] = slices.DeleteFunc(a.doubtful[e.object()], func(d auditEvent) bool {
		return d.who() == e.who() && d.credential() == e.credential() && d.Ended.Before(e.Received)
	})
}

// oneManager checks that a manager does not write after its successor has begun to write.
func (a *auditor) oneManager(e auditEvent) {
	if e.who() != provider {
		return
	}
	now := e.credential()
	switch i := slices.Index(a.managers, now); {
	case i < 0:
		a.managers = append(a.managers, now)
	case i < len(a.managers)-1:
		a.report("%s %s %s %s was written by a manager, and another one had begun to write", clock(e), e.Verb, e.On.Resource, e.On.Name)
	}
}

// machineWritten checks that only our manager changes hooks, and nodeRefs that are set. It notes which drains begin and end.
func (a *auditor) machineWritten(e auditEvent) {
	if e.On.Resource != "machines" {
		return
	}
	before := a.machines[e.On.Name]
	now, known := e.answered("Machine")
	if part, found := e.answered("PartialObjectMetadata"); found { // the garbage collector asks for it
		now, known = before, true
		now.Metadata = part.Metadata
	}
	if !known {
		return
	}
	a.machines[now.Metadata.Name] = now
	drains, terminates := now.hooks()
	drained, terminated := before.hooks()
	by := a.author(e, provider, "annotations")
	if by.who() != provider && (drains != drained || terminates != terminated) {
		a.report("%s %s has changed the hooks of Machine %s", clock(e), by.who(), now.Metadata.Name)
	}
	if drained && !drains && terminates && now.Status.NodeRef.Name != "" {
		a.drains = append(a.drains, &drain{node: now.Status.NodeRef.Name, machine: now.Metadata.Name, from: by.Received, surplus: a.books.surplus(by.Received)})
	}
	a.nodeRefWritten(e, before, now)
	a.holdWritten(e, now)
	a.settleDoubts(e)
	for _, d := range a.drains {
		if d.machine == now.Metadata.Name && d.to.IsZero() && (now.Status.NodeRef.Name != d.node || !terminates) {
			d.to = e.Ended
		}
	}
}

// nodeRefWritten checks that only our manager changes a nodeRef. Core may set it if it is empty, or was empty in the copy of
// the Machine that core read.
func (a *auditor) nodeRefWritten(e auditEvent, before, now auditObject) {
	was, is := before.Status.NodeRef.Name, now.Status.NodeRef.Name
	if was == is {
		return
	}
	if was == "" {
		a.unset[now.Metadata.Name] = e.Ended
	}
	by := a.author(e, provider, "nodeRef")
	seenEmpty := e.Received.Sub(a.unset[now.Metadata.Name]) <= passes
	if by.who() == provider || by.who() == core && is != "" && seenEmpty {
		return
	}
	a.report("%s %s has changed the nodeRef of Machine %s from %q to %q", clock(e), by.who(), now.Metadata.Name, was, is)
}

func (o auditObject) hooks() (drains, terminates bool) {
	_, drains = o.Metadata.Annotations[infrav1.PreDrainHook]
	_, terminates = o.Metadata.Annotations[infrav1.PreTerminateHook]
	return drains, terminates
}

// claimWritten checks that only our manager changes the node of a claim and its providerID.
func (a *auditor) claimWritten(e auditEvent) {
	now, found := e.answered("PortalMachine")
	if e.On.Resource != "portalmachines" || !found {
		return
	}
	before := a.claims[now.Metadata.Name]
	a.claims[now.Metadata.Name] = now
	by := a.author(e, provider, "providerID")
	if by.who() != provider && (before.Spec.ProviderID != now.Spec.ProviderID || before.Spec.Node != now.Spec.Node) {
		a.report("%s %s has changed the claim %s from %q to %q", clock(e), by.who(), now.Metadata.Name, before.Spec.ProviderID, now.Spec.ProviderID)
	}
	a.settleDoubts(e)
}

// nodeWritten checks that a Node is cordoned only for a drain, or by our manager because it has been drained.
func (a *auditor) nodeWritten(e auditEvent) {
	if !e.succeeded() {
		return
	}
	if strings.HasPrefix(e.Verb, "delete") {
		a.nodeDeleted(e)
		return
	}
	now, found := e.answered("Node")
	if !found {
		return
	}
	before := a.nodes[now.Metadata.Name]
	a.nodes[now.Metadata.Name] = now
	if e.Verb == "create" {
		a.born[now.Metadata.Name] = e.Received
	}
	a.marksWritten(e, before, now)
	drained := now.Metadata.Annotations[infrav1.DrainedAnnotation] != ""
	if !before.Spec.Unschedulable && now.Spec.Unschedulable && !(drained && e.who() == provider) {
		a.belongs("the cordon of Node "+now.Metadata.Name, now.Metadata.Name, a.author(e, core, "unschedulable"))
	}
	a.settleDoubts(e)
}

// podPlaced notes the Node of a Pod, which the scheduler or the Pod's creator chose.
func (a *auditor) podPlaced(e auditEvent) {
	var sent auditObject
	if !e.succeeded() || json.Unmarshal(e.Sent, &sent) != nil {
		return
	}
	if node := cmp.Or(sent.Target.Name, sent.Spec.NodeName); node != "" {
		a.pods[e.On.Namespace+"/"+cmp.Or(e.On.Name, sent.Metadata.Name)] = node
	}
}

// count adds the event to the writes of its client.
func (a *auditor) count(e auditEvent) {
	what := "objects"
	switch {
	case e.On.Subresource == "eviction":
		what = "evictions"
	case e.On.Resource == "nodes":
		what = "Nodes"
	case e.On.Resource == "pods":
		return
	}
	a.counts[what+" by "+e.who()]++
	if e.who() == provider {
		a.written[e.object()] = append(a.written[e.object()], e.Received)
	}
}

// loops checks that our manager does not write an object more than loopWrites times within loopSpan.
func (a *auditor) loops() {
	for _, object := range slices.Sorted(maps.Keys(a.written)) {
		times, first, most := a.written[object], 0, 0
		slices.SortFunc(times, time.Time.Compare)
		for i := range times {
			for times[i].Sub(times[first]) > loopSpan {
				first++
			}
			most = max(most, i-first+1)
		}
		a.busiest = max(a.busiest, most)
		if most > loopWrites {
			a.report("our manager wrote %s %d times within %s", object, most, loopSpan)
		}
		a.written[object] = times[first:] // a loop may go on in the next sequence
	}
}

// removed reports whether the request log has the removal of a node between the two times.
func (b books) removed(node string, from, to time.Time) bool {
	return slices.ContainsFunc(b.entries, func(e emulator.LogEntry) bool {
		return e.Object == "node" && e.ID == node && e.To == "removed" && !e.Time.Before(from) && !e.Time.After(to)
	})
}

// surplus reports whether the portal had more workers at that time than users asked for.
func (b books) surplus(at time.Time) bool { return b.workers(at) > slices.Min(b.sums.around(at)) }

// workers returns how many workers the portal had at that time. While the portal scales, a worker counts from the time it is
// added until it is removed.
func (b books) workers(at time.Time) int {
	size, running, scaling := 0, 0, false
	for _, e := range b.entries {
		switch {
		case e.Time.After(at):
		case e.Object == "node" && !strings.Contains(e.ID, "-w-"):
		case e.Object == "node" && e.To == "added":
			running++
		case e.Object == "node" && e.To == "removed":
			running--
		case e.Object == "cluster":
			scaling = e.To == string(emulator.ClusterScaling)
			_, _ = fmt.Sscanf(e.Detail, "size=%d", &size) // the size after the operation
		}
	}
	if scaling {
		return max(size, running)
	}
	return size
}

func clock(e auditEvent) string { return e.Received.Local().Format("15:04:05.000") }
