// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// The acts of this file happen at the portal and at its machines, past Kubernetes.

// pages returns what a person has on the portal's own pages.
func (w *World) pages() *cloud.Client {
	w.Helper()
	person, err := cloud.New(cloud.Config{
		BaseURL: portalURL + w.Options.Portal.BasePath, Email: pagesUser.Email, Password: pagesUser.Password, Transport: w.Portal.Transport(), Wait: true,
	})
	w.must(err)
	return person
}

// running returns the portal cluster if it can be changed.
func (l *life) running() (running *emulator.Cluster) {
	for _, c := range l.Portal.Clusters() {
		if c.State == emulator.ClusterRunning {
			running = &c
		}
	}
	return running
}

// resize changes the number of workers on the portal's pages. Soon after, a user changes the replicas. The portal may refuse it.
func (l *life) resize(n, m int) string {
	c := l.running()
	if c == nil {
		return ""
	}
	size := max(1, c.Size+1-n%3)
	l.judge.outside = true
	_, err := l.pages().ScaleCluster(context.Background(), c.ID, size)
	l.Let(time.Duration(m) * 100 * time.Millisecond)
	return fmt.Sprintf("a person asks on the portal's pages for %d workers (refused: %t), then %s", size, err != nil, l.scale(n, m))
}

// deletedOutside deletes the portal cluster on the portal's pages. Some time later, the user deletes the Cluster, and creates it again.
func (l *life) deletedOutside(n, m int) string {
	c := l.running()
	if c == nil {
		return ""
	}
	l.judge.outside = true
	if _, err := l.pages().DeleteCluster(context.Background(), c.ID); err != nil {
		return "a person may not delete the cluster on the portal's pages"
	}
	l.Let(time.Duration(m) * time.Second)
	return "a person has deleted the cluster on the portal's pages, " + l.again(n, m)
}

// worker returns the n-th machine of a worker that the portal runs, with the id of its cluster.
func (l *life) worker(n int) (cluster string, machine emulator.Node, found bool) {
	for _, c := range l.Portal.Clusters() {
		workers := slices.DeleteFunc(slices.Clone(c.Nodes), func(one emulator.Node) bool { return one.ControlPlane || one.Gone || one.Stopped })
		if len(workers) > 0 {
			return c.ID, workers[n%len(workers)], true
		}
	}
	return "", emulator.Node{}, false
}

// failNode stops the machine of a node for up to half an hour.
func (l *life) failNode(n, m int) string {
	_, machine, found := l.worker(n)
	if !found {
		return ""
	}
	l.must(l.Portal.StopMachine(context.Background(), machine.ID))
	l.hard = true // a portal may refuse changes until the machine runs
	l.after(time.Duration(2*m)*time.Second, func() {
		if err := l.Portal.StartMachine(context.Background(), machine.ID); err != nil {
			l.note("a machine that had stopped was removed: %v", err)
		}
	})
	return fmt.Sprintf("node %s fails for %d s", machine.Name, 2*m)
}

// nodeTrouble is a condition of Nodes that MachineHealthChecks look at, and that a new Machine does not cure.
const nodeTrouble corev1.NodeConditionType = "DiskTrouble"

// troubleNode gives a Node a condition for some minutes.
func (l *life) troubleNode(n, m int) string {
	cluster, machine, found := l.worker(n)
	if !found {
		return ""
	}
	l.must(l.workloads.mark(cluster, machine.Name, nodeTrouble, corev1.ConditionTrue))
	l.after(time.Duration(m)*time.Second, func() {
		l.must(l.workloads.mark(cluster, machine.Name, nodeTrouble, corev1.ConditionFalse))
	})
	return fmt.Sprintf("node %s is in trouble for %d s", machine.Name, m)
}

// trouble has another cause strike from now on, at an endpoint that has none yet.
func (l *life) trouble(n, m int) string {
	l.made++
	taken := slices.Clone(l.plan.Troubles)
	for _, f := range l.Portal.Faults() {
		taken = append(taken, f.Fault)
	}
	f, ok := causes[n%len(causes)].draw(newRand(l.plan.Seed+uint64(m), "trouble"), taken, 100+l.made)
	if !ok || f.OthersPerMinute > 0 { // neighbors come with the plan, and stay
		return ""
	}
	l.must(l.Portal.Inject(f))
	return "trouble at the portal: " + f.ID
}

// slowUpgrade slows the next upgrade down, and draws what it does to nodes, so that much happens between two of them. Half of these upgrades
// lose their answer. Some of the others fail half way.
func (l *life) slowUpgrade(n, m int) string {
	if l.version() != oldVersion {
		return ""
	}
	styles := []emulator.UpgradeStyle{emulator.UpgradeInPlace, emulator.UpgradeRecreate, emulator.UpgradeReplace, emulator.UpgradeSurge}
	f := emulator.Fault{
		ID: "slow upgrade", Method: atUpgrade.method, Path: atUpgrade.path, Count: 1, UpgradeStyle: styles[n%4], JobDelay: time.Duration(m) * time.Second,
	}
	switch m % 6 {
	case 0, 1, 2:
		f.Cut, f.After = true, true
	case 3:
		f.Job = emulator.JobFailsHalfway
	}
	l.hard = true
	l.Portal.RemoveFault(f.ID) // of an upgrade that never came, because the cluster was deleted
	l.must(l.Portal.Inject(f))
	return fmt.Sprintf("%s, slowly (%s, %d s, cut %t, job %q)", l.upgrade(n, m), f.UpgradeStyle, m, f.Cut, f.Job)
}
