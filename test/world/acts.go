// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// act is a user's change, or a failure around the provider. do returns what it did, or "" if it was not possible.
type act struct {
	name   string
	weight int
	do     func(l *life, n, m int) string
}

var acts []act

func init() { // the table names methods that look up acts
	acts = []act{
		{"scale", 6, (*life).scale},
		{"flurry", 2, (*life).flurry},
		{"new deployment", 2, (*life).newDeployment},
		{"drop deployment", 1, (*life).dropDeployment},
		{"drop all deployments", 1, (*life).dropAll},
		{"roll out", 3, (*life).rollOut},
		{"foreign template", 1, (*life).foreign},
		{"upgrade", 3, (*life).upgrade},
		{"version", 2, (*life).bump},
		{"delete Machine", 3, (*life).deleteMachine},
		{"delete Machine and scale", 3, (*life).deleteAndShrink},
		{"spread Pods", 2, (*life).spread},
		{"block evictions", 2, (*life).block},
		{"pause", 2, (*life).pause},
		{"restart", 1, (*life).restart},
		{"portal away", 2, (*life).away},
		{"hardship", 7, (*life).hardship},
		{"delete and create again", 1, (*life).again},
		{"stop", 1, (*life).stop},
		{"mismatching deployment", 1, (*life).mismatch},
		{"portal's pages", 2, (*life).resize},
		{"deletion on the portal's pages", 1, (*life).deletedOutside},
		{"node fails", 2, (*life).failNode},
		{"node in trouble", 2, (*life).troubleNode},
		{"portal trouble", 4, (*life).trouble},
		{"slow upgrade", 2, (*life).slowUpgrade},
	}
}

// life is a plan that is being lived.
type life struct {
	*World
	plan     plan
	judge    *judge
	person   *person
	made     int      // names that were used
	template string   // that new MachineDeployments use
	mends    []func() // what ends the troubles that acts began
	wasAway  bool     // the portal was
	hard     bool     // there was a hardship
}

// endurance is how long a life may take to settle. It is longer than any backoff after people have decided.
const endurance = 24 * time.Hour

func (l *life) deployments() []*clusterv1.MachineDeployment {
	resource := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinedeployments"}
	all := list[clusterv1.MachineDeployment](l.World, l.management, resource)
	return slices.DeleteFunc(all, func(md *clusterv1.MachineDeployment) bool { return md.DeletionTimestamp != nil })
}

func (l *life) draw(n int) *clusterv1.MachineDeployment {
	if all := l.deployments(); len(all) > 0 {
		return all[n%len(all)]
	}
	return nil
}

// edit changes the n-th MachineDeployment.
func (l *life) edit(n int, what string, change func(*clusterv1.MachineDeployment)) string {
	md := l.draw(n)
	if md == nil {
		return ""
	}
	Edit(l.World, client.ObjectKeyFromObject(md), md, change)
	return what + " of " + md.Name
}

func (l *life) scale(n, m int) string {
	replicas := int32(m % 5)
	return l.edit(n, fmt.Sprintf("%d replicas", replicas), func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// flurry changes replicas several times in a second.
func (l *life) flurry(n, m int) string {
	for i := range 3 {
		l.scale(n, m/(i*i+1))
		l.Let(300 * time.Millisecond)
	}
	return l.scale(n, m/7)
}

func (l *life) newDeployment(n, _ int) string {
	if len(l.deployments()) >= 3 || !l.exists() {
		return ""
	}
	l.made++
	md := NewWorkers(fmt.Sprint("more-", l.made), int32(n%3))
	md.Spec.Template.Spec.Version, md.Spec.Template.Spec.InfrastructureRef.Name = l.version(), l.template
	return fmt.Sprintf("%s with %d replicas, %s", md.Name, n%3, l.createDeployment(md, n/3))
}

// createDeployment creates a MachineDeployment, and draws how it rolls out, which Machines it deletes first, and whether its drains end early.
func (l *life) createDeployment(md *clusterv1.MachineDeployment, n int) string {
	one, none, quarter := intstr.FromInt(1), intstr.FromInt(0), intstr.FromString("25%")
	steps := []clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
		{MaxSurge: &one, MaxUnavailable: &none}, {MaxSurge: &none, MaxUnavailable: &one}, {MaxSurge: &quarter, MaxUnavailable: &quarter},
	}
	orders := []clusterv1.MachineSetDeletionOrder{
		clusterv1.RandomMachineSetDeletionOrder, clusterv1.NewestMachineSetDeletionOrder, clusterv1.OldestMachineSetDeletionOrder,
	}
	step := steps[n%3]
	md.Spec.Rollout.Strategy.Type, md.Spec.Rollout.Strategy.RollingUpdate = clusterv1.RollingUpdateMachineDeploymentStrategyType, step
	md.Spec.Deletion.Order = orders[n/3%3]
	if n/9%3 == 0 {
		md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(30))
	}
	l.Create(md)
	return fmt.Sprintf("surge %s, deletes %s, drains end early: %t", step.MaxSurge, md.Spec.Deletion.Order, n/9%3 == 0)
}

// exists reports whether the Cluster does, and is not being deleted.
func (l *life) exists() bool {
	c := &clusterv1.Cluster{}
	return l.Get(key, c) && c.DeletionTimestamp == nil
}

// version that users want of the control plane.
func (l *life) version() string {
	cp := &infrav1.PortalControlPlane{}
	l.Get(key, cp)
	return cp.Spec.Version
}

func (l *life) dropDeployment(n, _ int) string {
	if all := l.deployments(); len(all) > 1 {
		l.Delete(all[n%len(all)])
		return all[n%len(all)].Name + " is deleted"
	}
	return ""
}

// dropAll leaves nothing that asks for workers for a while.
func (l *life) dropAll(n, m int) string {
	if !l.exists() {
		return ""
	}
	for _, md := range l.deployments() {
		l.Delete(md)
	}
	l.Let(time.Duration(m) * time.Second)
	return "no MachineDeployment for a while, then " + l.newDeployment(n, m)
}

// rollOut points a MachineDeployment to a new template that asks for the same workers.
func (l *life) rollOut(n, _ int) string {
	if l.draw(n) == nil {
		return ""
	}
	l.newTemplate()
	return l.edit(n, "template "+l.template, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = l.template })
}

func (l *life) newTemplate() {
	l.made++
	l.template = fmt.Sprint("t-", l.made)
	l.CreateTemplate(l.template)
}

// foreign points a MachineDeployment to a template that the portal cannot honor for this cluster, and back.
func (l *life) foreign(n, m int) string {
	md := l.draw(n)
	if md == nil || !l.created() {
		return ""
	}
	l.must(client.IgnoreAlreadyExists(l.client.Create(context.Background(), NewTemplate("other", "large"))))
	before := md.Spec.Template.Spec.InfrastructureRef.Name
	l.edit(n, "", func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "other" })
	l.Let(time.Duration(m) * 200 * time.Millisecond)
	if l.Get(client.ObjectKeyFromObject(md), md) && md.DeletionTimestamp == nil {
		Edit(l.World, client.ObjectKeyFromObject(md), md, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = before })
	}
	return "a template with another offering for " + md.Name + ", and back"
}

// mismatch adds a MachineDeployment whose template the portal cannot honor for this cluster. Its replicas count. Some time later it gets a
// template that fits.
func (l *life) mismatch(n, m int) string {
	if len(l.deployments()) >= 3 || !l.exists() || !l.created() {
		return ""
	}
	l.must(client.IgnoreAlreadyExists(l.client.Create(context.Background(), NewTemplate("other", "large"))))
	l.made++
	md := &clusterv1.MachineDeployment{ObjectMeta: named(fmt.Sprint("more-", l.made))}
	l.CreateWorkers(md.Name, int32(1+n%2), l.version(), "other")
	l.after(time.Duration(m)*time.Second, func() {
		if l.Get(client.ObjectKeyFromObject(md), md) && md.DeletionTimestamp == nil {
			Edit(l.World, client.ObjectKeyFromObject(md), md, func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Spec.InfrastructureRef.Name = l.template
			})
		}
	})
	return fmt.Sprintf("%s with %d replicas and a template with another offering for %d s", md.Name, 1+n%2, m)
}

// created reports whether the portal has made the cluster. Until then, the templates still decide of what size its nodes are.
func (l *life) created() bool {
	return slices.ContainsFunc(l.Portal.Clusters(), func(c emulator.Cluster) bool {
		return c.State != emulator.ClusterCreating && c.State != emulator.ClusterFailed
	})
}

func (l *life) upgrade(int, int) string {
	if l.version() != oldVersion {
		return ""
	}
	Edit(l.World, key, &infrav1.PortalControlPlane{}, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = newVersion })
	return "upgrade to " + newVersion
}

// bump sets a MachineDeployment to the control plane's version. Often it has that already.
func (l *life) bump(n, _ int) string {
	to := l.version()
	return l.edit(n, to, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = to })
}

func (l *life) deleteMachine(n, _ int) string {
	all := l.Machines()
	if len(all) == 0 {
		return ""
	}
	m := all[n%len(all)]
	l.must(client.IgnoreNotFound(l.client.Delete(context.Background(), m)))
	return "Machine " + m.Name + " is deleted"
}

func (l *life) deleteAndShrink(n, m int) string {
	return l.deleteMachine(n, m) + ", " + l.edit(n, "one replica less", func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = new(max(0, *md.Spec.Replicas-1))
	})
}

func (l *life) spread(int, int) string {
	l.RollApp()
	return "the Pods spread"
}

// block has the budget refuse evictions until the life settles, or for some minutes.
func (l *life) block(_, m int) string {
	l.setSpare(0)
	l.after(time.Duration(m)*time.Second, func() { l.setSpare(l.App.Spare) })
	return fmt.Sprintf("no evictions for %d s", m)
}

func (l *life) setSpare(spare int) {
	for _, id := range l.workloads.ids() {
		one := l.workloads.get(id)
		one.app.Spare = spare
		l.ask(one.kubelet)
	}
}

func (l *life) pause(_, m int) string {
	pause := func(paused bool) {
		if l.exists() {
			Edit(l.World, key, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
		}
	}
	pause(true)
	l.after(time.Duration(m)*time.Second, func() { pause(false) })
	return fmt.Sprintf("the Cluster is paused for %d s", m)
}

func (l *life) restart(int, int) string {
	l.Restart()
	return "the manager starts again"
}

func (l *life) stop(int, int) string {
	l.Stop()
	return "the manager was stopped"
}

// away has the portal refuse everything, or cut all connections, for some minutes.
func (l *life) away(n, m int) string {
	f := emulator.Fault{ID: fmt.Sprint("away-", l.made), Status: 503}
	if n%2 == 0 {
		f.Status, f.Cut = 0, true
	}
	l.made++
	l.wasAway = true
	l.must(l.Portal.Inject(f))
	l.after(time.Duration(2*m)*time.Second, func() { l.Portal.RemoveFault(f.ID) })
	return fmt.Sprintf("the portal is away for %d s", 2*m)
}

// again deletes the cluster, in whatever state it is, and creates it again.
func (l *life) again(n, _ int) string {
	l.deleteCluster()
	l.newTemplate() // the old ones belonged to the Cluster
	l.CreateClusterAgain()
	l.CreateWorkers(name, int32(1+n%3), oldVersion, l.template)
	l.checks()
	return "the cluster is deleted, and created again"
}

func (l *life) deleteCluster() {
	l.mend()
	l.Let(10 * time.Second) // until the Cluster owns the objects that a user has just created
	l.note("a user deletes the cluster")
	l.must(client.IgnoreNotFound(l.client.Delete(context.Background(), &clusterv1.Cluster{ObjectMeta: named(name)})))
	l.Until("deleted", endurance, l.Left)
}

// after has do happen later, or when the life settles, whichever comes first.
func (l *life) after(wait time.Duration, do func()) {
	at, done := time.Now().Add(wait), false
	l.mends = append(l.mends, func() {
		if !done {
			done = true
			do()
		}
	})
	mend := l.mends[len(l.mends)-1]
	l.looks = append(l.looks, func() {
		if !done && !time.Now().Before(at) {
			mend()
		}
	})
}

// mend ends what acts began.
func (l *life) mend() {
	for _, do := range l.mends {
		do()
	}
	l.mends = nil
}
