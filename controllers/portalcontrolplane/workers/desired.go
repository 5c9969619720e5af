// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

// Desired is how many workers the members of a Cluster ask for. DesiredBy makes it.
type Desired struct {
	// known is false if an object does not have its number yet. An unset number is not zero.
	known bool
	// sum of the replicas of MachineDeployments, of standalone MachineSets and Machines, and of the pool. Objects that are being
	// deleted do not count, and paused ones count with what they had.
	sum int
	// stays is the part of sum that no object asks for, because the portal refuses fewer workers.
	stays int
	// objects is the number of objects that ask for workers, including those that are being deleted. In a protected Cluster, these do not
	// count: if a tool that prunes deletes all MachineDeployments, no object asks for workers, so all workers stay.
	objects   int
	protected bool
	// going is how many workers objects have asked for that do not count, but whose workers stay as long as they exist: those that are being
	// deleted in a protected Cluster, because a tool that prunes deletes one object after the other, and those that lost what they had.
	going int
	// ending is true if the namespace is being deleted. The number of workers then stays as it is: the Cluster goes too, and with Retain
	// the portal cluster keeps its workers.
	ending bool
	// notes are sentences about objects that count in another way than their owner may expect.
	notes []string
	// collected are the objects that the garbage collector may have deleted, with the sum of their replicas. They ask for no workers.
	collected    []string
	collectedSum int
	// Templates that the workers are created from, sorted.
	Templates []string
	// Youngest of the objects that count.
	Youngest time.Time
	// autoscaled is true if the cluster autoscaler may scale one of the MachineDeployments, or the pool. mayLose is true if it may
	// remove a worker of one of them now.
	autoscaled, mayLose bool
	// Awaited are in the sum as far as their workers exist already.
	Awaited Awaited
}

// member is an object that asks for workers.
type member struct {
	metav1.ObjectMeta
	kind     string
	stale    bool // if it is being deleted, the garbage collector may have deleted it
	replicas *int32
	template string
	pause    pause
}

// add counts an object.
func (d *Desired) add(m member) {
	if m.pause.by != "" && !m.stale && m.replicas != nil {
		d.addPaused(&m)
	}
	deleted := !m.DeletionTimestamp.IsZero()
	if deleted && !m.stale && d.protected {
		d.going += int(ptr.Deref(m.replicas, 0))
		return
	}
	d.objects++
	switch {
	case deleted && !m.stale:
		return
	case deleted:
		d.collected, d.collectedSum = append(d.collected, m.Name), d.collectedSum+int(ptr.Deref(m.replicas, 0))
	default:
		d.known = d.known && m.replicas != nil
		d.sum += int(ptr.Deref(m.replicas, 0))
	}
	if m.CreationTimestamp.After(d.Youngest) {
		d.Youngest = m.CreationTimestamp.Time
	}
	if m.template != "" && !slices.Contains(d.Templates, m.template) {
		d.Templates = append(d.Templates, m.template)
		slices.Sort(d.Templates)
	}
}

// addPaused makes a paused object count with what it had. Core does not delete it either.
func (d *Desired) addPaused(m *member) {
	asked, counts := int(*m.replicas), m.pause.counts(int(*m.replicas))
	m.DeletionTimestamp, m.replicas = nil, ptr.To(int32(counts))
	but := fmt.Sprintf("counts with %s, not with %d,", outcome.Count(counts, "worker"), asked)
	if m.pause.unknown {
		d.going += asked
		but = "gets no new workers"
	}
	if counts != asked {
		d.notes = append(d.notes, fmt.Sprintf("%s is paused, so %s %s %s until annotation %s is removed", m.pause.by, m.kind, m.Name, but, clusterv1.PausedAnnotation))
	}
}

// DesiredBy adds up the replicas of the members. The record tells how many workers stay although no object asks for them.
func DesiredBy(cluster *clusterv1.Cluster, from Members, record operation.Record) Desired {
	d := Desired{known: true, protected: infrav1.DeletionProtected(cluster), ending: from.ending}
	var deployments, sets []metav1.LabelSelector
	for _, md := range from.deployments {
		deployments = append(deployments, md.Spec.Selector)
		if ref := md.Spec.Template.Spec.InfrastructureRef; ref.Kind == TemplateKind {
			d.add(member{md.ObjectMeta, "MachineDeployment", ownerref.Stale(&md, cluster), md.Spec.Replicas, ref.Name, from.pauseOfDeployment(&md)})
			d.noteDeployment(&md)
		}
	}
	for _, ms := range from.sets {
		sets = append(sets, ms.Spec.Selector)
		if ref := ms.Spec.Template.Spec.InfrastructureRef; ref.Kind == TemplateKind && standalone(&ms, deployments) {
			d.add(member{ms.ObjectMeta, "MachineSet", ownerref.Stale(&ms, cluster), ms.Spec.Replicas, ref.Name, from.pauseOfSet(&ms)})
		}
	}
	for _, m := range from.Machines {
		if standalone(&m, sets) {
			d.add(member{m.ObjectMeta, "Machine", ownerref.Stale(&m, cluster), ptr.To[int32](1), "", from.pauseOfMachine(&m)})
		}
	}
	if p := from.pool; p != nil {
		mp := &p.machinePool
		d.add(member{mp.ObjectMeta, "MachinePool", StalePool(mp, p.infra, cluster), mp.Spec.Replicas, "", p.pause()})
		d.autoscaled, d.mayLose = d.autoscaled || autoscaled(mp), d.mayLose || p.shrinks() && mayLose(mp, mp.Spec.Replicas)
	}
	_, d.Awaited = TopologyOf(cluster, from)
	d.sum += d.kept(record.Size)
	if d.sum == 0 {
		d.stays = record.MinWorkers
	}
	d.sum += d.stays
	if d.ending && record.Size >= 0 {
		d.sum = record.Size
	}
	return d
}

// noteDeployment notes what the cluster autoscaler may do, and a version that core misses.
func (d *Desired) noteDeployment(md *clusterv1.MachineDeployment) {
	d.autoscaled, d.mayLose = d.autoscaled || autoscaled(md), d.mayLose || mayLose(md, md.Spec.Replicas)
	if md.Spec.Template.Spec.Version == "" {
		d.notes = append(d.notes, fmt.Sprintf("MachineDeployment %s has no spec.template.spec.version, so core reports that it rolls out. "+
			"Set the version of the cluster", md.Name))
	}
}

// standalone reports whether an object counts by itself: it has no controller, and none of the selectors makes core adopt it. A restored
// object may have lost its owner references, and core gives them back one object after the other.
func standalone(o metav1.Object, selectors []metav1.LabelSelector) bool {
	return metav1.GetControllerOf(o) == nil && !slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool { return selects(s, o) })
}

func selects(s metav1.LabelSelector, o metav1.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(o.GetLabels()))
}

// kept is how many workers stay beyond the sum. While the garbage collector deletes objects, all workers stay, so a person can replace the
// objects before they are gone. Workers that the portal cluster was created with are not removed before the MachineDeployments exist that
// they were created for. More workers are requested only when a MachineDeployment asks for them.
func (d *Desired) kept(size int) int {
	beyond := max(0, size-d.sum)
	if len(d.collected) > 0 && size == operation.SizeUnknown {
		return d.collectedSum
	} else if len(d.collected) > 0 {
		return beyond
	}
	return min(d.Awaited.Replicas+d.going, beyond)
}

// FirstSize is the number of workers that the portal cluster is created with.
func (d *Desired) FirstSize() int { return max(d.sum, d.sum-d.stays+d.Awaited.Replicas) }

// Parameters returns what the workers are created from: the parameters on which the templates of the MachineDeployments
// agree, or spec.workers if no template exists yet.
func (k Keeper) Parameters(ctx context.Context, p *pass.Pass, members Members, d Desired) (infrav1.WorkerParameters, outcome.Outcome) {
	none := infrav1.WorkerParameters{}
	if !d.known {
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason, "a MachineDeployment of the Cluster has no spec.replicas yet. Set it")
	}
	pool := members.pool
	if len(d.Templates) == 0 && pool == nil {
		if own := p.ControlPlane.Spec.Workers; own != nil {
			return *own, outcome.Outcome{}
		}
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the Cluster has no worker template yet. Create a MachineDeployment with a PortalMachineTemplate, or a MachinePool, for Cluster %s, or set spec.workers", p.Cluster.Name)
	}
	byParameters := map[infrav1.WorkerParameters][]string{}
	switch {
	case pool != nil && pool.infra == nil:
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason, "the PortalMachinePool that MachinePool %s names does not exist. Create it", pool.machinePool.Name)
	case pool != nil:
		byParameters[pool.infra.Spec.WorkerParameters] = []string{"PortalMachinePool " + pool.infra.Name}
	}
	for _, name := range d.Templates {
		template := &infrav1.PortalMachineTemplate{}
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: p.Cluster.Namespace, Name: name}, template)
		if apierrors.IsNotFound(err) {
			return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason, "PortalMachineTemplate %s, which a MachineDeployment names, does not exist. Create it", name)
		}
		if err != nil {
			return none, outcome.Fail(err)
		}
		byParameters[template.Spec.Template.Spec] = append(byParameters[template.Spec.Template.Spec], name)
	}
	return agreed(byParameters)
}

// agreed returns the parameters that all templates share. The portal makes all workers of a cluster alike.
func agreed(byParameters map[infrav1.WorkerParameters][]string) (infrav1.WorkerParameters, outcome.Outcome) {
	var all []string
	var one infrav1.WorkerParameters
	for parameters, templates := range byParameters {
		one = parameters
		all = append(all, fmt.Sprintf("%s: offering %s, SSH key pair %s", strings.Join(templates, ", "), parameters.ServiceOfferingID, parameters.SSHKeyPair))
	}
	if len(all) == 1 {
		return one, outcome.Outcome{}
	}
	slices.Sort(all)
	return one, outcome.StallFor(0, infrav1.TemplateNotHonoredReason,
		"the PortalMachineTemplates of the MachineDeployments, or the pool, differ (%s). Make them equal: the portal makes all workers of a cluster alike",
		strings.Join(all, "; "))
}

// Awaited are the MachineDeployments and MachinePools of a Cluster's topology that do not exist yet.
type Awaited struct {
	Names    []string
	Replicas int // their sum
}

// TopologyOf returns the MachineDeployments that the Cluster's topology, if it has one, has created, and those that it has not
// created yet. MachinePools are awaited too.
func TopologyOf(cluster *clusterv1.Cluster, from Members) (made []clusterv1.MachineDeployment, a Awaited) {
	for _, wanted := range cluster.Spec.Topology.Workers.MachineDeployments {
		i := slices.IndexFunc(from.deployments, func(md clusterv1.MachineDeployment) bool {
			return md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] == wanted.Name
		})
		if i >= 0 {
			made = append(made, from.deployments[i])
			continue
		}
		a.await(wanted.Name, wanted.Replicas)
	}
	for _, wanted := range cluster.Spec.Topology.Workers.MachinePools {
		if !slices.ContainsFunc(from.pools, func(mp clusterv1.MachinePool) bool {
			return mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel] == wanted.Name
		}) {
			a.await(wanted.Name, wanted.Replicas)
		}
	}
	return made, a
}

func (a *Awaited) await(name string, replicas *int32) {
	a.Names = append(a.Names, name)
	a.Replicas += int(ptr.Deref(replicas, 1)) // core's default
}
