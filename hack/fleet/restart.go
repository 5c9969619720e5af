// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/fleet"
)

// measureIdle watches the manager while it has nothing to do.
func (b *bench) measureIdle(ctx context.Context) error {
	b.say("idle for %v", b.idle)
	const settle = 30 * time.Second // for the last scale of the second tenant
	if err := pause(ctx, settle); err != nil {
		return err
	}
	before, err := b.measureUsage(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, b.idle); err != nil {
		return err
	}
	after, err := b.measureUsage(ctx)
	if err != nil {
		return err
	}
	share := (after.cpu - before.cpu) / after.at.Sub(before.at).Seconds()
	all := float64(b.clusters + b.neighbours)
	b.report.add("manager when idle", usageWords(after), b.per100(after))
	b.report.add("CPU when idle", fmt.Sprintf("%.1f %% of a core", 100*share), fmt.Sprintf("%.2f %% per 100 clusters", 100*share*100/all))
	portal := b.requests(fleetAccount, before.at)
	b.report.add(fmt.Sprintf("requests within %v when idle", b.idle), fmt.Sprintf("portal %d, management API %.0f", len(portal), after.requests-before.requests),
		perCluster(byEndpoint(portal), 1))
	return nil
}

// measureHandOver ends the idle manager as a roll-out of its Deployment does, while a second manager waits for the lease.
func (b *bench) measureHandOver(ctx context.Context) error {
	if !b.handOver {
		return nil
	}
	b.StopManager()
	if err := b.StartManager(ctx, b.LeaderElection()...); err != nil {
		return err
	}
	objects := b.clusters + b.neighbours
	if _, err := b.waitForPasses(ctx, time.Now(), objects); err != nil {
		return err
	}
	b.observer.forget(notAvailable)
	began := time.Now()
	b.say("handing over to a second manager")
	signalled, err := b.HandOver(ctx)
	if err != nil {
		return err
	}
	ended := time.Since(signalled)
	reconciled, err := b.waitForPasses(ctx, signalled, objects)
	if err != nil {
		return err
	}
	b.report.add("hand-over: SIGTERM → first manager ended", seconds(ended), "")
	b.report.add("hand-over: SIGTERM → every object reconciled", seconds(reconciled), fmt.Sprintf("%d portal clusters, by the second manager", objects))
	b.report.add("hand-over: Available that flipped", fmt.Sprint(b.observer.count(notAvailable)),
		fmt.Sprintf("%d requests at the portal", len(b.requests(fleetAccount, began))))
	b.KillManager()
	return b.StartManager(ctx)
}

// measureRestart kills the manager while another account creates as many clusters.
func (b *bench) measureRestart(ctx context.Context) error {
	if !b.restart {
		return nil
	}
	began := time.Now()
	b.say("creating %d clusters on another account, to kill the manager during that", b.clusters)
	if err := b.createClusters(ctx, restartTenant, b.clusters); err != nil {
		return err
	}
	for accepted(b.requests(restartAccount, began), createRoute) < b.clusters {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	if err := pause(ctx, 2*time.Second); err != nil { // so that the manager stores the last answers
		return err
	}
	b.observer.forget(notAvailable)
	loadBefore, killed := load(), time.Now()
	running, least := b.inFlight(began)
	b.say("killing the manager: %d jobs run", len(running))
	b.KillManager()
	if err := b.StartManager(ctx); err != nil {
		return err
	}
	started := time.Since(killed)
	objects := b.clusters + b.neighbours
	if b.storm {
		objects += b.clusters
	}
	reconciled, err := b.waitForPasses(ctx, killed, objects)
	if err != nil {
		return err
	}
	looked, err := b.waitForLooks(ctx, running, killed)
	if err != nil {
		return err
	}
	r := &b.report
	r.add("kill -9: jobs in flight", fmt.Sprint(len(running)), "load "+loadBefore)
	r.add("kill -9 → manager ready", seconds(started), "")
	r.add("kill -9 → every object reconciled", seconds(reconciled), fmt.Sprintf("%d portal clusters", objects))
	r.add("kill -9 → job looked at", quantiles(looked), fmt.Sprintf("max %s; the account needs %s", seconds(quantile(looked, 1)), seconds(least)))
	dropped, err := b.droppedConnections()
	if err != nil {
		return err
	}
	r.add("kill -9: connections dropped", fmt.Sprint(dropped), "to workload clusters, by the next manager")
	b.say("waiting for the clusters")
	if err := b.wait(ctx, restartTenant, isAvailable, b.clusters); err != nil {
		return err
	}
	requests := b.requests(restartAccount, began)
	r.add("kill -9: clusters created twice", fmt.Sprint(accepted(requests, createRoute)-b.clusters), fmt.Sprintf("%d × 429", limited(requests)))
	r.add("kill -9: Available that flipped", fmt.Sprint(b.observer.count(notAvailable)), b.coreWords())
	return nil
}

// inFlight returns the creations that run, and how long the account needs to look at each of them once. Jobs that have ended come first:
// the manager looks at each and fetches its kubeconfig.
func (b *bench) inFlight(began time.Time) (running []emulator.Job, least time.Duration) {
	for _, j := range b.jobs(emulator.JobCreateCluster, restartAccount, began) {
		if j.Ended.IsZero() {
			running = append(running, j)
		}
	}
	ended := b.clusters - len(running) - len(b.observer.in(restartTenant, hasKubeconfig))
	return running, fleet.TimeFor(len(running) + 2*ended)
}

// waitForPasses returns how long after the end of the former manager the work queues were empty for the first time and each controller had
// made at least as many passes as there are clusters.
func (b *bench) waitForPasses(ctx context.Context, ended time.Time, clusters int) (time.Duration, error) {
	objects := float64(clusters)
	for {
		u, err := b.measureUsage(ctx) // fails until the manager serves its metrics, a moment after it is ready
		if err == nil && u.queued == 0 && u.passes["portalcluster"] >= objects && u.passes["portalcontrolplane"] >= objects {
			return u.at.Sub(ended), nil
		}
		if time.Since(ended) > 5*time.Minute {
			return 0, errors.Join(fmt.Errorf("not every object was reconciled within 5 minutes: %v passes, %v queued", u.passes, u.queued), err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// waitForLooks returns how long after the kill the manager looked at each job.
func (b *bench) waitForLooks(ctx context.Context, jobs []emulator.Job, killed time.Time) ([]time.Duration, error) {
	for {
		looked := looks(b.requests(restartAccount, killed), jobs, func(emulator.Job) time.Time { return killed })
		if len(looked) == len(jobs) {
			return looked, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return looked, err
		}
	}
}
