// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// carryOut does the writes of the plan. It returns what the provider's own drains wait for, by Node, and the objects that could not be written.
func (k Keeper) carryOut(
	ctx context.Context, p *pass.Pass, workload client.Client, d *decision,
) (drains map[string]string, failed failures, o outcome.Outcome) {
	drains = map[string]string{}
	for _, w := range d.plan.Writes {
		if failed.concern(w) {
			continue
		}
		waits, err := k.write(ctx, p, workload, d.members, &w)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return nil, failed, outcome.RetryAfter(0) // it was changed: look again
		case err != nil && w.Step == claims.WriteList:
			return nil, failed, outcome.Fail(fmt.Errorf("write the list of the pool: %w", err))
		case err != nil:
			if failed.add(w, err); failed.unanswered >= maxUnanswered {
				return nil, failed, outcome.Fail(fmt.Errorf("write Machine %q or Node %q: %w", w.Machine.Seen.Name, w.Node.Seen.Name, err))
			}
			ctrl.LoggerFrom(ctx).Error(err, "Failed to change an object. Other nodes are not held up",
				"Machine", w.Machine.Seen.Name, "Node", w.Node.Seen.Name, "why", w.Why)
			continue
		case w.Step == claims.DrainNode:
			drains[w.Node.Seen.Name] = waits
		}
		report(ctx, p, w)
	}
	return drains, failed, outcome.Outcome{}
}

// write does one write of a plan, on an object that the plan has read past the cache. If a Machine was changed since, for example by core,
// it is read again once. It returns what a drain of the provider waits for. Afterwards, Want is what was written.
func (k Keeper) write(ctx context.Context, p *pass.Pass, workload client.Client, members Members, w *claims.Write) (waits string, err error) {
	switch w.Step {
	case claims.WriteList:
		list := members.pool.infra
		return "", p.Writer.Change(ctx, list, func() { list.Spec.ProviderIDList = w.List })
	case claims.WriteNode, claims.DrainNode, claims.DeleteNode:
		return k.writeNode(ctx, p.Cluster, workload, members, w)
	}
	err = k.writeMachine(ctx, p.Writer, members, w)
	if !apierrors.IsConflict(err) {
		return "", err
	}
	machine, freshMachine, freshClaim := members.machine(w.Machine.Seen.Name), &clusterv1.Machine{}, &infrav1.PortalMachine{}
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(machine), freshMachine); err != nil {
		return "", err
	}
	*machine = *freshMachine
	if claim := members.portalMachine(machine.Spec.InfrastructureRef.Name); claim != nil {
		if err := k.Live.Get(ctx, client.ObjectKeyFromObject(claim), freshClaim); err != nil {
			return "", err
		}
		*claim = *freshClaim
	}
	return "", k.writeMachine(ctx, p.Writer, members, w)
}

// writeMachine does one write of a Machine or its PortalMachine.
func (k Keeper) writeMachine(ctx context.Context, writer persist.Writer, members Members, w *claims.Write) error {
	machine := members.machine(w.Machine.Seen.Name)
	if machine == nil {
		return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machines").GroupResource(), w.Machine.Seen.Name)
	}
	switch w.Step {
	case claims.WriteClaim:
		return writePortalMachine(ctx, writer, machine, members.portalMachine(machine.Spec.InfrastructureRef.Name), &w.Machine)
	case claims.WriteNodeRef:
		before := machine.DeepCopy()
		machine.Status.NodeRef.Name = w.Machine.Want.NodeRef
		return k.Client.Status().Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	return writer.Change(ctx, machine, func() { applyToMachine(machine, w.Machine.Seen, w.Machine.Want) })
}

// applyToMachine changes the annotations that differ.
func applyToMachine(m *clusterv1.Machine, seen, want claims.Machine) {
	if want.PreDrain != seen.PreDrain {
		setHook(m, infrav1.PreDrainHook, want.PreDrain)
	}
	if want.PreTerminate != seen.PreTerminate {
		setHook(m, infrav1.PreTerminateHook, want.PreTerminate)
	}
	if want.DeleteFirst && !seen.DeleteFirst {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.DeleteMachineAnnotation, "")
	}
}

// setHook puts a hook on a Machine that is not being deleted, or removes it. With the hooks comes core's annotation that keeps
// MachineHealthChecks from replacing the Machine: the next one would get the same node, which only the portal can repair. It stays.
func setHook(m *clusterv1.Machine, hook string, on bool) {
	if !on {
		delete(m.Annotations, hook)
		return
	}
	for _, annotation := range []string{hook, clusterv1.MachineSkipRemediationAnnotation} {
		if m.DeletionTimestamp.IsZero() && !metav1.HasAnnotation(m.ObjectMeta, annotation) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, annotation, "")
		}
	}
}

// writePortalMachine binds the PortalMachine of a Machine to a Node, or releases it. Core copies no providerID from a PortalMachine
// that was deleted by hand, so then the Machine itself is changed.
func writePortalMachine(
	ctx context.Context, writer persist.Writer, machine *clusterv1.Machine, claim *infrav1.PortalMachine, c *claims.Change[claims.Machine],
) error {
	id := c.Want.Claim.ProviderID
	switch release := claims.IsReleased(id); {
	case claim == nil && release:
		return writer.Change(ctx, machine, func() { machine.Spec.ProviderID = id })
	case claim == nil:
		return apierrors.NewNotFound(infrav1.GroupVersion.WithResource("portalmachines").GroupResource(), machine.Spec.InfrastructureRef.Name)
	case release:
		return writer.Change(ctx, claim, func() { claim.Spec.ProviderID = id })
	case !claim.DeletionTimestamp.IsZero(), !c.Seen.Deleting && !machine.DeletionTimestamp.IsZero():
		c.Want = c.Seen // it is being deleted: the next plan sees that
		return nil
	}
	return writer.Change(ctx, claim, func() {
		claim.Spec.ProviderID = id
		claim.Spec.Node = &infrav1.BoundNode{Name: c.Want.Claim.Name, UID: c.Want.Claim.UID}
	})
}
