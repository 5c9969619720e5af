// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/version"
)

// patience is how long one step may take besides the portal's job. It is many times what an idle machine needs, and enough for a busy one.
const patience = 10 * time.Minute

const (
	clusterName    = "demo"
	deploymentName = clusterName + "-workers"
	workers        = 2
	moreWorkers    = 5
	fewerWorkers   = 3
	controlNodes   = 3
)

// demo is one run of the demonstration.
type demo struct {
	*sandbox.Sandbox
	out  io.Writer
	from string // the versions before and after the upgrade
	to   string
	// longest is how long one step may take.
	longest time.Duration
	took    *took
	evicted evictions
}

// Options configures a demonstration.
type Options struct {
	sandbox.Options
	// Record is the file for a recording of the sandbox's page (package cloud/emulator/page). If it is empty, nothing is recorded.
	Record string
}

// startStep describes what happens before the first step.
const startStep = "Start a management cluster, Cluster API, the portal provider and an emulated portal on this machine"

// Run starts a sandbox, takes a cluster through its life, and closes the sandbox. It returns an error if a step fails, after it has
// explained the failure on options.Out. It also returns an error if the portal saw requests that are not part of such a life.
func Run(ctx context.Context, options Options) error {
	out := options.Out
	begin := time.Now()
	versions, jobs := workload.Versions(), options.Portal.Durations
	d := &demo{
		out: out, from: versions[0], to: versions[1],
		longest: patience + max(jobs.Create, jobs.Scale, jobs.Upgrade, jobs.Delete), took: readTook(options.Root),
	}
	d.announce()
	say(out, "%s", startStep)
	s, err := sandbox.Start(ctx, options.Options)
	if err != nil {
		return err
	}
	d.Sandbox = s
	d.took.record(startStep, begin)
	if s.PageURL != "" {
		indent(out, "watch it in a browser: "+s.PageURL)
	}
	indent(out, fmt.Sprintf("the portal removes workers in the order %q, its seed is %d: a run with --seed %[2]d makes the same choices",
		options.Portal.VictimOrder, s.Portal.Seed()))
	if options.Record == "" {
		err = d.life(ctx)
	} else {
		about := page.About{Name: "make demo", Version: version.Get().Version, Seed: s.Portal.Seed()}
		err = recorded(ctx, options.Record, s.PageURL, about, d.life)
	}
	if err != nil {
		d.explain(context.WithoutCancel(ctx))
	}
	if judged := d.judge(); err == nil {
		err = judged
	}
	err = errors.Join(err, s.Close())
	if err == nil {
		say(out, "All of it took %.0f s", time.Since(begin).Seconds())
	}
	return err
}

// life runs the steps.
func (d *demo) life(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(d.Wait(ctx)) }() // The steps cannot succeed without the managers.
	steps := d.steps()
	for i, step := range steps {
		d.ShowStep(page.Step{Number: i + 1, Of: len(steps), Name: step.name})
		if err := d.run(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (d *demo) steps() []step {
	replacement := &replacement{demo: d}
	return []step{
		{
			name:  fmt.Sprintf("Create a cluster with %d workers: clusterctl generate cluster | kubectl apply", workers),
			waits: "Cluster Available, a Machine with a Node for each worker",
			act:   d.create, missing: d.missingWorkers(workers), show: true,
		},
		{
			name:  fmt.Sprintf("Scale its MachineDeployment from %d to %d", workers, moreWorkers),
			waits: "three more Machines with Nodes",
			act:   d.scale(moreWorkers), missing: d.missingWorkers(moreWorkers),
		},
		{
			name:  fmt.Sprintf("Run %d Pods on these nodes, of which a quarter may be away at a time: kubectl create deployment, poddisruptionbudget", pods),
			waits: "all Pods Ready",
			act:   d.runPods, missing: d.missingPods,
		},
		{
			name:  fmt.Sprintf("Scale its MachineDeployment from %d to %d", moreWorkers, fewerWorkers),
			waits: "two gone, and the three that one job made drained before, because the portal may take any of them; the others have a Machine",
			act:   d.scale(fewerWorkers), missing: d.missingWorkers(fewerWorkers),
		},
		{
			name:  fmt.Sprintf("Upgrade it from %s to %s: spec.version of the PortalControlPlane", d.from, d.to),
			waits: "control plane and all Nodes at the new version",
			act:   d.upgrade, missing: d.missingUpgrade,
		},
		{
			name:  fmt.Sprintf("Roll its MachineDeployment out to %s: spec.template.spec.version", d.to),
			waits: "new Machines that have taken over the Nodes of the old ones",
			act:   replacement.of(d.rollOut), missing: replacement.missing(fewerWorkers), after: replacement.judge, show: true,
		},
		{
			name:  "kubectl delete machine",
			waits: "a new Machine on its Node",
			act:   replacement.of(d.deleteMachine), missing: replacement.missing(1), after: replacement.judge, show: true,
		},
		{
			name:  "Delete it",
			waits: "nothing left, neither here nor at the portal",
			act:   d.remove, missing: d.missingRemoval,
		},
	}
}
