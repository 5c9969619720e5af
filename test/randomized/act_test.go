// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// act is a user's change, or a fault of the portal, a node or the manager.
type act struct {
	name   string
	weight int
	quiet  bool // does not change replicas
	// do returns a description of the act, or "" if the act was not possible.
	do func(*life, context.Context) (string, error)
}

var acts = []act{
	{"scale", 6, false, (*life).scale},
	{"flurry", 2, false, (*life).flurry},
	{"new deployment", 1, false, (*life).newDeployment},
	{"drop deployment", 1, false, (*life).dropDeployment},
	{"drop all deployments", 2, false, (*life).dropAllDeployments},
	{"roll out", 3, true, (*life).rollOut},
	{"foreign template", 1, true, (*life).foreign},
	{"upgrade", 1, true, (*life).upgrade},
	{"version", 2, true, (*life).bump},
	{"delete Machine", 4, true, (*life).deleteMachine},
	{"node fails", 2, true, (*life).failNode},
	{"drains blocked", 2, true, (*life).block},
	{"portal fault", 4, true, (*life).fault},
	{"hardship", 4, true, (*life).hardship},
	{"slow upgrade", 1, true, (*life).slowUpgrade},
	{"delete Machine and scale", 3, false, (*life).deleteAndShrink},
	{"portal's pages", 2, false, (*life).onThePages},
	{"budget", 2, true, (*life).budget},
	{"node in trouble", 2, true, (*life).troubleNode},
	{"mismatching deployment", 1, false, (*life).mismatch},
	{"kill", 1, true, (*life).kill},
	{"stop", 1, true, (*life).stop},
}

// happen runs one sequence: a few acts with gaps. Then it checks that the Cluster settles and that no rule was broken.
func (l *life) happen(ctx context.Context) error {
	quiet, count := l.roll.IntN(3) == 0, 3+l.roll.IntN(4)
	if l.plan.short {
		count = 2
	}
	started := time.Now()
	var done []string
	for range count {
		what, err := l.act(ctx, quiet)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(done, "; "), err)
		}
		if what != "" {
			done = append(done, what)
		}
		time.Sleep(time.Duration(l.roll.Int64N(int64(5 * time.Second))))
	}
	line := strings.Join(done, "; ")
	if quiet {
		line = "(quiet) " + line
	}
	acted := time.Now()
	if err := errors.Join(l.settle(ctx), l.judge(quiet)); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.environment.settled++
	l.waited = append(l.waited, time.Since(acted))
	fmt.Printf("%s %s seed %d sequence %d: %s: settled, %d workers, %s + %s\n", time.Now().UTC().Format("15:04:05"), l.environment, l.seed, l.sequence,
		line, l.sums.now(), acted.Sub(started).Round(time.Second), time.Since(acted).Round(time.Second))
	return nil
}

// act draws one act and runs it.
func (l *life) act(ctx context.Context, quiet bool) (string, error) {
	possible, total := []act{}, 0
	for _, a := range acts {
		if a.quiet || !quiet {
			possible = append(possible, a)
			total += a.weight
		}
	}
	drawn := l.roll.IntN(total)
	for _, a := range possible {
		if drawn -= a.weight; drawn >= 0 {
			continue
		}
		what, err := a.do(l, ctx)
		if what != "" {
			l.logf("%s", what)
			l.count(a.name)
		}
		return what, err
	}
	return "", nil
}

func (l *life) drawDeployment() string { return l.deployments[l.roll.IntN(len(l.deployments))] }

// change patches an object until the API server accepts the patch. A webhook or an API server may be away for a moment.
func change[T client.Object](ctx context.Context, c client.Client, o T, do func(T)) error {
	return within(ctx, time.Minute, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		do(o)
		return c.Patch(ctx, o, client.MergeFrom(before))
	})
}

func (l *life) changeDeployment(ctx context.Context, name string, do func(*clusterv1.MachineDeployment)) error {
	return change(ctx, l.client, &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}, do)
}

func (l *life) scaleTo(ctx context.Context, deployment string, replicas int32) error {
	return l.sums.change(deployment, int(replicas), func() error {
		return l.changeDeployment(ctx, deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
	})
}

func (l *life) scale(ctx context.Context) (string, error) {
	deployment, replicas := l.drawDeployment(), int32(l.roll.IntN(5))
	return fmt.Sprintf("%s to %d", deployment, replicas), l.scaleTo(ctx, deployment, replicas)
}

// flurry changes replicas several times in a second.
func (l *life) flurry(ctx context.Context) (string, error) {
	deployment, done := l.drawDeployment(), []string{}
	for range 3 + l.roll.IntN(3) {
		replicas := int32(l.roll.IntN(5))
		done = append(done, fmt.Sprint(replicas))
		if err := l.scaleTo(ctx, deployment, replicas); err != nil {
			return "", err
		}
	}
	return deployment + " to " + strings.Join(done, ","), nil
}

func (l *life) newDeployment(ctx context.Context) (string, error) {
	replicas := int32(l.roll.IntN(3))
	if len(l.deployments) >= 3 {
		return "", nil
	}
	err := l.addDeployment(ctx, replicas)
	return fmt.Sprintf("new %s with %d", l.deployments[len(l.deployments)-1], replicas), err
}

func (l *life) dropDeployment(ctx context.Context) (string, error) {
	if len(l.deployments) < 2 {
		return "", nil
	}
	deployment := l.drawDeployment()
	return "drop " + deployment, l.deleteDeployment(ctx, deployment)
}

func (l *life) deleteDeployment(ctx context.Context, name string) error {
	l.deployments = slices.DeleteFunc(l.deployments, func(other string) bool { return other == name })
	return l.sums.change(name, -1, func() error {
		return l.client.Delete(ctx, &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}})
	})
}

// dropAllDeployments deletes all MachineDeployments, so nothing asks for workers until a new one does.
func (l *life) dropAllDeployments(ctx context.Context) (string, error) {
	for _, name := range slices.Clone(l.deployments) {
		if err := l.deleteDeployment(ctx, name); err != nil {
			return "", err
		}
	}
	gone, pause, replicas := l.waitForNoMachines(ctx), l.drawTime(time.Second, 10*time.Second), int32(1+l.roll.IntN(3))
	time.Sleep(pause)
	return fmt.Sprintf("drop all (Machines gone: %t), and %s later a new one with %d", gone, pause, replicas), l.addDeployment(ctx, replicas)
}

// waitForNoMachines reports whether all Machines went within half a minute. A drain or the portal may hold them for longer.
func (l *life) waitForNoMachines(ctx context.Context) bool {
	return within(ctx, 30*time.Second, func() error {
		l.seen.Lock()
		defer l.seen.Unlock()
		if n := len(l.machines); n > 0 {
			return fmt.Errorf("%d Machines are left", n)
		}
		return nil
	}) == nil
}

// rollOut points a MachineDeployment to a new template that asks for the same workers, which starts a rollout.
func (l *life) rollOut(ctx context.Context) (string, error) {
	deployment := l.drawDeployment()
	template, err := l.newTemplate(ctx)
	if err != nil {
		return "", err
	}
	return "roll out " + deployment, l.changeDeployment(ctx, deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.InfrastructureRef.Name = template
	})
}

// foreign points a MachineDeployment to a template that the portal cannot honor for this cluster, and back.
func (l *life) foreign(ctx context.Context) (string, error) {
	deployment, before := l.drawDeployment(), ""
	point := func(template string) error {
		return l.changeDeployment(ctx, deployment, func(md *clusterv1.MachineDeployment) {
			before, md.Spec.Template.Spec.InfrastructureRef.Name = md.Spec.Template.Spec.InfrastructureRef.Name, template
		})
	}
	if err := point(foreignTemplate); err != nil {
		return "", err
	}
	time.Sleep(time.Second + time.Duration(l.roll.Int64N(int64(8*time.Second))))
	return "foreign template for " + deployment + " and back", point(before)
}

// upgrade sets the control plane to the next version, so that the portal upgrades the cluster.
func (l *life) upgrade(ctx context.Context) (string, error) {
	if l.version == len(versions)-1 {
		return "", nil
	}
	l.version++
	controlPlane := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	return "upgrade to " + versions[l.version], change(ctx, l.client, controlPlane, func(cp *infrav1.PortalControlPlane) {
		cp.Spec.Version = versions[l.version]
	})
}

// bump sets a MachineDeployment to the control plane's version. Often the MachineDeployment has that version already.
func (l *life) bump(ctx context.Context) (string, error) {
	deployment := l.drawDeployment()
	return deployment + " to " + versions[l.version], l.changeDeployment(ctx, deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Version = versions[l.version]
	})
}

func (l *life) deleteMachine(ctx context.Context) (string, error) {
	l.seen.Lock()
	names := slices.Sorted(maps.Keys(l.machines))
	l.seen.Unlock()
	i := l.roll.IntN(1000)
	if len(names) == 0 {
		return "", nil
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: names[i%len(names)]}}
	return "delete Machine " + machine.Name, client.IgnoreNotFound(l.client.Delete(ctx, machine))
}

// kill ends the manager as a crash does. All Clusters of the environment share this manager.
func (l *life) kill(ctx context.Context) (string, error) {
	return l.endManager(ctx, "kill", l.box.KillManager)
}

// stop ends the manager with SIGTERM.
func (l *life) stop(ctx context.Context) (string, error) {
	return l.endManager(ctx, "stop", l.box.StopManager)
}

func (l *life) endManager(ctx context.Context, what string, end func()) (string, error) {
	pause := time.Duration(l.roll.Int64N(int64(3 * time.Second)))
	done, err := l.restart(ctx, end, pause)
	if !done {
		return "", err
	}
	return what, err
}
