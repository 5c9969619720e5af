// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// patience is how long one step may take beside the portal's job: many times what it takes on an idle machine.
const patience = 2 * time.Minute

const (
	clusterName    = "demo"
	deploymentName = clusterName + "-workers"
	workers        = 3
	moreWorkers    = 5
	controlNodes   = 3
)

// demo is one run.
type demo struct {
	*sandbox.Sandbox
	out  io.Writer
	from string // the versions that the cluster is created with and upgraded to
	to   string
	// longest is how long one step may take.
	longest time.Duration
}

// Run starts a sandbox, takes a cluster through its life in it, and ends it. It returns an error if a step fails, which
// is explained on out, or if the portal saw requests that it should not have seen.
func Run(ctx context.Context, options sandbox.Options, out io.Writer) error {
	options.Out = out
	begin := time.Now()
	say(out, "Starting a management cluster, Cluster API, the portal provider and an emulated portal on this machine")
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return err
	}
	versions, jobs := workload.Versions(), options.Portal.Durations
	d := &demo{
		Sandbox: s, out: out, from: versions[0], to: versions[1],
		longest: patience + max(jobs.Create, jobs.Scale, jobs.Upgrade, jobs.Delete),
	}
	err = d.life(ctx)
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

// life is the demonstration itself.
func (d *demo) life(ctx context.Context) error {
	steps := []step{
		{
			name:  fmt.Sprintf("Create a cluster with %d workers: clusterctl generate cluster | kubectl apply", workers),
			waits: "Cluster Available, a Machine with a Node for each worker",
			act:   d.create, missing: d.missingWorkers(workers), show: true,
		},
		{
			name:  fmt.Sprintf("Scale its MachineDeployment from %d to %d", workers, moreWorkers),
			waits: "two more Machines with Nodes",
			act:   d.scale(moreWorkers), missing: d.missingWorkers(moreWorkers),
		},
		{
			name:  fmt.Sprintf("Scale its MachineDeployment from %d to %d", moreWorkers, workers),
			waits: "the newest two drained and gone",
			act:   d.scale(workers), missing: d.missingWorkers(workers),
		},
		{
			name:  fmt.Sprintf("Upgrade it from %s to %s", d.from, d.to),
			waits: "control plane and all Nodes at the new version",
			act:   d.upgrade, missing: d.missingUpgrade, show: true,
		},
		{
			name:  "Delete it",
			waits: "nothing left, neither here nor at the portal",
			act:   d.remove, missing: d.missingRemoval,
		},
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(d.Wait(ctx)) }() // Without managers there is nothing to wait for.
	for _, step := range steps {
		if err := d.run(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// create does what the README tells a user to do.
func (d *demo) create(ctx context.Context) error {
	generate := d.command(ctx, d.Binary("clusterctl"), "generate", "cluster", clusterName,
		"--from", d.File("templates", "cluster-template.yaml"),
		"--target-namespace", d.Identity.Namespace,
		"--kubernetes-version", d.from,
		"--control-plane-machine-count", fmt.Sprint(controlNodes),
		"--worker-machine-count", fmt.Sprint(workers),
	)
	manifests, err := generate.Output()
	if err != nil {
		return fmt.Errorf("clusterctl generate cluster: %w%s", err, standardError(err))
	}
	apply := d.command(ctx, d.Kubectl(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(string(manifests))
	output, err := apply.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, output)
	}
	indent(d.out, string(output))
	return nil
}

func (d *demo) scale(replicas int) func(context.Context) error {
	return func(ctx context.Context) error {
		deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: deploymentName}}
		return d.patch(ctx, deployment, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
}

func (d *demo) upgrade(ctx context.Context) error {
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: clusterName}}
	return d.patch(ctx, controlPlane, fmt.Sprintf(`{"spec":{"version":%q}}`, d.to))
}

func (d *demo) remove(ctx context.Context) error {
	return d.Client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: d.Identity.Namespace, Name: clusterName}})
}

func (d *demo) patch(ctx context.Context, object client.Object, change string) error {
	return d.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(change)))
}

// command is a program run as a user of the sandbox would run it.
func (d *demo) command(ctx context.Context, path string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, path, arguments...)
	command.Env = append(os.Environ(), d.Environment()...)
	return command
}

func standardError(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "\n" + string(exit.Stderr)
	}
	return ""
}
