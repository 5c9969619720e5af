// SPDX-License-Identifier: Apache-2.0

package histories

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
	// passes is how long core may go on with what it read before something changed.
	passes = 10 * time.Second
	// A loop shows: so often, at most, our manager writes one object within loopSpan. A controller that writes whenever it
	// looks would do so each second; what happens in these histories takes up to 35.
	loopSpan, loopWrites = time.Minute, 50
)

// auditor judges one Cluster by the audit logs of both API servers.
type auditor struct {
	books  books
	report func(format string, args ...any) // of what does not hold

	machines, claims map[string]auditObject // as the last write left them
	nodes            map[string]auditObject
	born             map[string]time.Time // Nodes, when they were created
	pods             map[string]string    // on which Node
	drains           []*drain             // of core
	ours             []*drain             // of our manager
	holds            []hold
	unset            map[string]time.Time    // Machines, when their nodeRef was last empty
	doubtful         map[string][]auditEvent // requests of which nobody knows whether they were carried out, by object
	revisions        map[string][]auditEvent // what was answered with the same version of an object: only one of them has made it
	managers         []string                // credentials, in the order in which they wrote
	written          map[string][]time.Time
	counts           map[string]int // what was written by whom since somebody cleared them
	busiest          int            // writes of our manager to one object within loopSpan
}

// drain of a Node, from the moment that core was let at it.
type drain struct {
	node, machine string
	from, to      time.Time // zero: not over
	surplus       bool
}

// books are what the portal wrote down of one account, and the sums of replicas that users asked for.
type books struct {
	entries []emulator.Entry
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

// judge goes through what both API servers have logged since the last time; the management cluster's comes first, since
// it says which drains began.
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

// inOrder sorts by the order in which writes took effect. Those that made no version come where they ended: no later
// write to the same object was answered before.
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

// author is the event that changed what this one shows changed for the first time: itself, unless somebody who may do so had
// sent such a field in a request that was broken off, or whose answer came later than one to a request that changed nothing.
// What its sender has written since is no longer in doubt.
func (a *auditor) author(e auditEvent, who, field string) auditEvent {
	for _, d := range slices.Concat(a.doubtful[e.object()], a.revisions[e.revision()]) {
		if e.who() != who && d.who() == who && d.Received.Before(e.Ended) && bytes.Contains(d.Sent, []byte(`"`+field+`"`)) {
			return d
		}
	}
	return e
}

// settleDoubts forgets the doubtful requests for an object whose sender has written it since.
func (a *auditor) settleDoubts(e auditEvent) {
	a.doubtful[e.object()] = slices.DeleteFunc(a.doubtful[e.object()], func(d auditEvent) bool {
		return d.who() == e.who() && d.credential() == e.credential() && d.Ended.Before(e.Received)
	})
}

// oneManager wants a manager that has been followed by another one to write no more.
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

// machineWritten wants hooks, and nodeRefs that are set, to be changed by nobody but our manager. It notes which drains
// begin and end.
func (a *auditor) machineWritten(e auditEvent) {
	if e.On.Resource != "machines" {
		return
	}
	before := a.machines[e.On.Name]
	now, known := e.answered("Machine")
	if part, found := e.answered("PartialObjectMetadata"); found { // as the garbage collector asks for
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

// nodeRefWritten lets core set a nodeRef that is empty, or was in the copy of the Machine that it worked on.
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

// claimWritten wants the node of a claim, and its providerID, to be changed by nobody but our manager.
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

// nodeWritten wants a Node to be cordoned only for a drain, or because it has been drained.
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

// podPlaced notes the Node of a Pod: the scheduler's choice, or its creator's.
func (a *auditor) podPlaced(e auditEvent) {
	var sent auditObject
	if !e.succeeded() || json.Unmarshal(e.Sent, &sent) != nil {
		return
	}
	if node := cmp.Or(sent.Target.Name, sent.Spec.NodeName); node != "" {
		a.pods[e.On.Namespace+"/"+cmp.Or(e.On.Name, sent.Metadata.Name)] = node
	}
}

// count notes who wrote what.
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

// loops wants our manager not to write an object over and over.
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
		a.written[object] = times[first:] // the next sequence may go on with it
	}
}

// removed tells whether the portal wrote between these moments that the machine of a Node is gone.
func (b books) removed(node string, from, to time.Time) bool {
	return slices.ContainsFunc(b.entries, func(e emulator.Entry) bool {
		return e.Object == "node" && e.ID == node && e.To == "removed" && !e.Time.Before(from) && !e.Time.After(to)
	})
}

// surplus tells whether there were more workers at that moment than were asked for.
func (b books) surplus(at time.Time) bool { return b.workers(at) > slices.Min(b.sums.around(at)) }

// workers is how many the portal had at that moment; while it scales, those that are there already or still.
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
			_, _ = fmt.Sscanf(e.Detail, "size=%d", &size) // as it is after an operation
		}
	}
	if scaling {
		return max(size, running)
	}
	return size
}

func clock(e auditEvent) string { return e.Received.Local().Format("15:04:05.000") }
