// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownerref"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalmachinepool"
)

const (
	machineKind  = "PortalMachine"
	templateKind = "PortalMachineTemplate"
)

// desired is the number of workers that the objects of the Cluster ask for.
type desired struct {
	// known is false if an object does not have its number yet. An unset number is not zero.
	known bool
	// sum of the replicas of MachineDeployments, of standalone MachineSets and Machines, and of the pool. Objects that are being
	// deleted do not count, unless the garbage collector may have deleted them. If there are no objects, a plan sets it to the
	// number of workers that stay.
	sum int
	// stays is the part of sum that no object asks for, because the portal refuses fewer workers.
	stays int
	// objects is the number of objects that ask for workers, including those that are being deleted.
	objects int
	// collected are the objects that the garbage collector may have deleted. They count until they are gone.
	collected []string
	// templates that the workers are created from, sorted.
	templates []string
	// youngest of the objects that count.
	youngest time.Time
	// machines of the Cluster that are backed by PortalMachines, and its MachineSets.
	machines []clusterv1.Machine
	sets     []clusterv1.MachineSet
	// autoscaled is true if the cluster autoscaler may scale one of the MachineDeployments, or the pool. mayLose is true if it may
	// remove a worker of a MachineDeployment now. It removes none of a pool.
	autoscaled, mayLose bool
	// pool is the Cluster's pool, or nil.
	pool *pool
	// topologyDeployments are the MachineDeployments of the Cluster's topology. awaited are those that the topology controller
	// has not created yet. They are in the sum as far as their workers exist already.
	topologyDeployments []clusterv1.MachineDeployment
	awaited             awaited
}

func (d *desired) count(cluster *clusterv1.Cluster, meta metav1.ObjectMeta, replicas *int32, template string) {
	d.add(meta, ownerref.Stale(&meta, cluster), replicas, template)
}

// add counts an object. If it is stale and being deleted, the garbage collector may have deleted it.
func (d *desired) add(meta metav1.ObjectMeta, stale bool, replicas *int32, template string) {
	d.objects++
	if !meta.DeletionTimestamp.IsZero() {
		if !stale {
			return
		}
		d.collected = append(d.collected, meta.Name)
	}
	if replicas == nil {
		d.known = false
	}
	d.sum += int(ptr.Deref(replicas, 0))
	if meta.CreationTimestamp.After(d.youngest) {
		d.youngest = meta.CreationTimestamp.Time
	}
	if template != "" && !slices.Contains(d.templates, template) {
		d.templates = append(d.templates, template)
		slices.Sort(d.templates)
	}
}

// desiredBy adds up the replicas of the members.
func (s *scope) desiredBy(from members) desired {
	d := desired{known: true, machines: from.machines, sets: from.sets, pool: from.pool}
	for _, md := range from.deployments {
		if ref := md.Spec.Template.Spec.InfrastructureRef; ref.Kind == templateKind {
			d.count(s.Cluster, md.ObjectMeta, md.Spec.Replicas, ref.Name)
			d.autoscaled, d.mayLose = d.autoscaled || autoscaled(&md), d.mayLose || mayLose(&md)
		}
	}
	for _, ms := range from.sets {
		if ref := ms.Spec.Template.Spec.InfrastructureRef; ref.Kind == templateKind && metav1.GetControllerOf(&ms) == nil {
			d.count(s.Cluster, ms.ObjectMeta, ms.Spec.Replicas, ref.Name)
		}
	}
	for _, m := range from.machines {
		if metav1.GetControllerOf(&m) == nil {
			d.count(s.Cluster, m.ObjectMeta, ptr.To[int32](1), "")
		}
	}
	if p := from.pool; p != nil {
		mp := &p.machinePool
		d.add(mp.ObjectMeta, portalmachinepool.Stale(mp, p.infra, s.Cluster), mp.Spec.Replicas, "")
		d.autoscaled = d.autoscaled || autoscaled(mp)
	}
	d.topologyDeployments, d.awaited = topologyOf(s.Cluster, from.deployments, from.pools)
	d.sum += d.kept(s.Record.Size)
	if d.sum == 0 {
		d.stays = s.Record.MinWorkers
	}
	d.sum += d.stays
	return d
}

// kept is how many workers stay beyond the sum. If the garbage collector deletes several objects, the first one that is gone must
// not take its workers along.
func (d *desired) kept(size int) int {
	if len(d.collected) > 0 {
		return max(0, size-d.sum)
	}
	return d.awaited.keptFor(d.sum, size)
}

// workerParameters returns what the workers are created from: the parameters on which the templates of the MachineDeployments
// agree, or spec.workers if no template exists yet.
func (r *Reconciler) workerParameters(ctx context.Context, s *scope) (infrav1.WorkerParameters, outcome.Outcome) {
	none := infrav1.WorkerParameters{}
	if !s.desired.known {
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason, "a MachineDeployment of the Cluster has no spec.replicas yet. Set it")
	}
	pool := s.desired.pool
	if len(s.desired.templates) == 0 && pool == nil {
		if own := s.ControlPlane.Spec.Workers; own != nil {
			return *own, outcome.Outcome{}
		}
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the Cluster has no worker template yet. Create a MachineDeployment with a PortalMachineTemplate, or a MachinePool, for Cluster %s, or set spec.workers", s.Cluster.Name)
	}
	byParameters := map[infrav1.WorkerParameters][]string{}
	switch {
	case pool != nil && pool.infra == nil:
		return none, outcome.WaitFor(0, infrav1.WaitingForObjectReason, "the PortalMachinePool that MachinePool %s names does not exist. Create it", pool.machinePool.Name)
	case pool != nil:
		byParameters[pool.infra.Spec.WorkerParameters] = []string{"PortalMachinePool " + pool.infra.Name}
	}
	for _, name := range s.desired.templates {
		template := &infrav1.PortalMachineTemplate{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, template)
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
