// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// scaleEvery is how often the second tenant scales one of its clusters.
const scaleEvery = 5 * time.Second

// change is one scale by the second tenant.
type change struct {
	cluster string
	at      time.Time // of the write of the spec
}

// storm holds the measurements of the time in which the clusters were created.
type storm struct {
	start   time.Time
	created time.Duration // of creating the objects
	load    string        // of the machine, before the storm
	changes []change
	usage   usage // at the end. The manager was restarted right before the storm
}

// settleNeighbours creates the clusters of the second tenant.
func (b *bench) settleNeighbours(ctx context.Context) error {
	b.say("creating %d clusters of the second tenant", b.neighbours)
	if err := b.createClusters(ctx, secondTenant, b.neighbours); err != nil {
		return err
	}
	return b.wait(ctx, secondTenant, isAvailable, b.neighbours)
}

// measureStorm has one tenant create all its clusters at once while the second one scales.
func (b *bench) measureStorm(ctx context.Context) error {
	b.KillManager() // the next manager has not learned how long jobs take
	if err := b.StartManager(ctx); err != nil {
		return err
	}
	s := &storm{start: time.Now(), load: load()}
	b.say("creating %d clusters", b.clusters)
	if err := b.createClusters(ctx, stormTenant, b.clusters); err != nil {
		return err
	}
	s.created = time.Since(s.start)
	scaling, stop := context.WithCancel(ctx)
	defer stop()
	scaled := make(chan []change, 1)
	go func() { scaled <- b.scaleNeighbours(scaling) }()
	for _, what := range b.milestones() {
		if err := b.wait(ctx, stormTenant, what, b.clusters); err != nil {
			return err
		}
		b.say("all: %s", what)
	}
	stop()
	s.changes = <-scaled
	var err error
	if s.usage, err = b.measureUsage(ctx); err != nil {
		return err
	}
	return b.reportStorm(ctx, s)
}

// milestones returns the milestones that each cluster reaches. The stand-in makes no Machine Ready.
func (b *bench) milestones() []milestone {
	if b.realCore() {
		return []milestone{hasKubeconfig, isAvailable, workersReady}
	}
	return []milestone{hasKubeconfig, isAvailable}
}

// scaleNeighbours adds a worker to each cluster of the second tenant in turn.
func (b *bench) scaleNeighbours(ctx context.Context) (changes []change) {
	if b.neighbours == 0 {
		return nil
	}
	for i := 0; pause(ctx, scaleEvery) == nil; i++ {
		deployment := &clusterv1.MachineDeployment{}
		deployment.Namespace, deployment.Name = secondTenant, clusterName(i%b.neighbours)
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+i/b.neighbours)
		at := time.Now()
		if b.client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch))) == nil {
			changes = append(changes, change{deployment.Name, at})
		}
	}
	return changes
}

// names returns the names of a namespace's Clusters by the portal's cluster id.
func (b *bench) names(ctx context.Context, namespace string) (map[string]string, error) {
	all := &infrav1.PortalControlPlaneList{}
	if err := b.client.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, one := range all.Items {
		names[one.Spec.ClusterID] = one.Name
	}
	return names, nil
}

// sent returns how long after each change of the second tenant the manager asked the portal for it. The last changes may be missing.
func (b *bench) sent(requests []emulator.LogEntry, changes []change, names map[string]string) (waited []time.Duration) {
	for _, c := range changes {
		i := slices.IndexFunc(requests, func(e emulator.LogEntry) bool {
			return e.Route == createRoute+"/{cluster_id}/scale" && !e.Time.Before(c.at) && names[clusterOf(e.Path)] == c.cluster
		})
		if i >= 0 {
			waited = append(waited, requests[i].Time.Sub(c.at))
		}
	}
	return waited
}

func (b *bench) reportStorm(ctx context.Context, s *storm) error {
	r := &b.report
	jobs, scales := b.jobs(emulator.JobCreateCluster, fleetAccount, s.start), b.jobs(emulator.JobScaleCluster, fleetAccount, s.start)
	requests := b.requests(fleetAccount, s.start)
	ideal, alone := bound(s.start, jobs, needs(scales)...), bound(s.start, jobs)
	ready := since(s.start, b.observer.in(stormTenant, hasKubeconfig))
	available := since(s.start, b.observer.in(stormTenant, isAvailable))
	late := looks(requests, jobs, endOf)
	neighbours, err := b.names(ctx, secondTenant)
	if err != nil {
		return err
	}
	waited := b.sent(requests, s.changes, neighbours)

	r.add("machine", fmt.Sprintf("%d cores, load %s before and %s after", runtime.NumCPU(), s.load, load()), "")
	r.add("objects created within", seconds(s.created), "")
	r.add("all have a kubeconfig", times(quantile(ready, 1), quantile(ideal, 1)), bounds(quantile(ideal, 1), quantile(alone, 1)))
	r.add("half have a kubeconfig", times(quantile(ready, 0.5), quantile(ideal, 0.5)), bounds(quantile(ideal, 0.5), quantile(alone, 0.5)))
	r.add("all, half are Available", seconds(quantile(available, 1))+", "+seconds(quantile(available, 0.5)), "")
	r.add("second tenant: spec → POST", quantiles(waited), fmt.Sprintf("%d of %d changes sent", len(waited), len(s.changes)))
	r.add("a finished job is noticed after", quantiles(late), fmt.Sprintf("%d jobs", len(late)))
	r.add("portal requests per cluster", perCluster(byEndpoint(requests), b.clusters), fmt.Sprintf("sum %.1f", float64(len(requests))/float64(b.clusters)))
	r.add("429s", fmt.Sprint(limited(requests)), "")
	r.add("management API requests per cluster", fmt.Sprintf("%.1f", s.usage.requests/float64(b.clusters)), "with those of the second tenant")
	r.add("manager at the end", usageWords(s.usage), b.per100(s.usage))
	r.add("CPU of the manager for the storm", fmt.Sprintf("%.0f s", s.usage.cpu), fmt.Sprintf("%.1f s per 100 clusters", s.usage.cpu*100/float64(b.clusters)))
	dropped, err := b.droppedConnections()
	if err != nil {
		return err
	}
	r.add("connections to workload clusters dropped", fmt.Sprint(dropped), "")
	return b.reportWorkers(ctx, jobs)
}

// reportWorkers reports how long after the end of each creation the first Machine was Ready.
func (b *bench) reportWorkers(ctx context.Context, jobs []emulator.Job) error {
	if !b.realCore() {
		b.report.add("end of the job → Machines Ready", "not measured", "needs real core")
		return nil
	}
	names, err := b.names(ctx, stormTenant)
	if err != nil {
		return err
	}
	at := b.observer.in(stormTenant, workersReady)
	const limit = 20 * time.Second
	var took []time.Duration
	within := 0
	for _, j := range jobs {
		took = append(took, at[names[j.ClusterID]].Sub(j.Ended))
		if took[len(took)-1] <= limit {
			within++
		}
	}
	b.report.add("end of the job → Machines Ready", fmt.Sprintf("%d of %d within %v", within, len(took), limit),
		fmt.Sprintf("p50 %s, max %s", seconds(quantile(took, 0.5)), seconds(quantile(took, 1))))
	return nil
}
