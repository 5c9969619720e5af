// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// settled says what has not settled yet: the portal has one cluster with as many workers as are wanted, each worker has a Node that is Ready
// and free of marks, Machines and workers are one to one, everything is up to date, and the conditions say so.
func (l *life) settled() string {
	clusters := l.Portal.Clusters()
	if len(clusters) == 0 {
		return "the portal has no cluster"
	}
	c := clusters[len(clusters)-1]
	wanted := l.judge.sums[len(l.judge.sums)-1].sum
	if c.State != emulator.ClusterRunning || c.Size != max(wanted, l.least()) || c.Version != l.version() {
		return fmt.Sprintf("the portal cluster is %s with %d workers at %s, %d are wanted", c.State, c.Size, c.Version, wanted)
	}
	nodes, problem := l.settledNodes(c)
	if problem == "" {
		problem = l.oneToOne(nodes, wanted)
	}
	if problem == "" {
		problem = l.settledConditions()
	}
	return problem
}

// least is how many workers the portal keeps at least: one if it has refused a cluster without workers.
func (l *life) least() int {
	cp := &infrav1.PortalControlPlane{}
	l.Get(key, cp)
	record, err := operation.LoadRecord(cp)
	l.must(err)
	return record.MinWorkers
}

// settledNodes returns the names of the worker Nodes whose machines the portal runs.
func (l *life) settledNodes(c emulator.Cluster) (running map[string]bool, problem string) {
	machines, running := map[string]bool{}, map[string]bool{}
	for _, n := range c.Nodes {
		machines[n.ID] = !n.ControlPlane && !n.Gone
	}
	one := l.workloads.get(c.ID)
	if one == nil {
		return nil, "there is no workload cluster"
	}
	for _, n := range list[corev1.Node](l.World, one.server, schema.GroupResource{Resource: "nodes"}) {
		switch {
		case !machines[machineOf(n)]:
		case !schedulable(n):
			return nil, fmt.Sprintf("node %s: unschedulable %t, taints %v", n.Name, n.Spec.Unschedulable, n.Spec.Taints)
		case metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation), metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation),
			metav1.HasAnnotation(n.ObjectMeta, infrav1.ScaleDownDisabledAnnotation):
			return nil, fmt.Sprintf("node %s is marked: %v", n.Name, n.Annotations)
		default:
			running[n.Name] = true
		}
	}
	if len(running) != c.Size {
		return nil, fmt.Sprintf("%d of %d workers have a Node", len(running), c.Size)
	}
	return running, ""
}

func (l *life) oneToOne(nodes map[string]bool, wanted int) string {
	left, holder := map[string]int{}, map[string]string{}
	for _, md := range l.deployments() {
		left[md.Name] = int(*md.Spec.Replicas)
	}
	machines := l.Machines()
	for _, m := range machines {
		node := m.Status.NodeRef.Name
		switch {
		case m.DeletionTimestamp != nil:
			return "Machine " + m.Name + " is being deleted"
		case !conditions.IsTrue(m, clusterv1.MachineReadyCondition):
			return "Machine " + m.Name + " is not Ready"
		case conditions.GetReason(m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason:
			return "Machine " + m.Name + " is of an old revision"
		case !nodes[node] || holder[node] != "":
			return fmt.Sprintf("Machine %s has Node %q, which does not run or which Machine %q holds", m.Name, node, holder[node])
		}
		holder[node] = m.Name
		left[m.Labels[clusterv1.MachineDeploymentNameLabel]]--
	}
	for _, md := range l.deployments() {
		if left[md.Name] != 0 {
			return fmt.Sprintf("MachineDeployment %s wants %d more Machines", md.Name, left[md.Name])
		}
	}
	if len(machines) != wanted {
		return fmt.Sprintf("%d Machines, %d are wanted", len(machines), wanted)
	}
	return ""
}

func (l *life) settledConditions() string {
	cp := &infrav1.PortalControlPlane{}
	if !l.Get(key, cp) {
		return "there is no PortalControlPlane"
	}
	for _, t := range []string{infrav1.AvailableCondition, infrav1.VersionUpToDateCondition, infrav1.WorkersReadyCondition} {
		if c := conditions.Get(cp, t); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("condition %s is %v", t, c)
		}
	}
	state, err := operation.Load(cp)
	if op := state.Op(); op != nil || err != nil {
		return fmt.Sprintf("the %v is in flight, %v", op, err)
	}
	return ""
}

// The limits of a cluster at rest.
const (
	restTime     = 6 * time.Hour
	restWrites   = 2                              // of the provider in an hour
	restSettling = operatorTakes + 30*time.Minute // in which something may still be written, and a person deletes what failed
)

// rest lets hours pass, in which the provider must change nothing at the portal, and next to nothing in the management cluster.
func (l *life) rest() {
	l.Let(restSettling)
	lines, requests := len(l.log), len(l.Requests())
	l.Let(restTime)
	if after := l.Requests(); len(after) > requests {
		l.judge.wrong("rest", "the portal was asked at rest: %v", after[requests:])
	}
	var writes []string
	for _, line := range l.log[lines:] {
		if strings.Contains(line, " provider: ") {
			writes = append(writes, line)
		}
	}
	if most := int(restTime/time.Hour) * restWrites; len(writes) > most {
		l.judge.wrong("rest", "%d writes in %s at rest, such as %s", len(writes), restTime, writes[0])
	}
	if problem := l.settled(); problem != "" {
		l.judge.wrong("rest", "no longer settled: %s", problem)
	}
}
