// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
)

// carryOut does one write of a plan, on an object that the plan has read past the cache. If a Machine was changed since, for
// example by core, it is read again once.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, w claims.Write) error {
	switch w.Step {
	case claims.WriteList:
		list := s.desired.pool.infra
		return r.writer().Change(ctx, list, func() { list.Spec.ProviderIDList = w.List })
	case claims.WriteNode, claims.DrainNode, claims.DeleteNode:
		return r.carryOutNode(ctx, s, w)
	}
	err := r.carryOutMachine(ctx, s, w)
	if !apierrors.IsConflict(err) {
		return err
	}
	machine, freshMachine, freshClaim := s.machine(w.Machine.Seen.Name), &clusterv1.Machine{}, &infrav1.PortalMachine{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(machine), freshMachine); err != nil {
		return err
	}
	*machine = *freshMachine
	if claim := s.claim(machine.Spec.InfrastructureRef.Name); claim != nil {
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(claim), freshClaim); err != nil {
			return err
		}
		*claim = *freshClaim
	}
	return r.carryOutMachine(ctx, s, w)
}

// carryOutMachine does one write of a Machine or its PortalMachine.
func (r *Reconciler) carryOutMachine(ctx context.Context, s *scope, w claims.Write) error {
	machine := s.machine(w.Machine.Seen.Name)
	if machine == nil {
		return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machines").GroupResource(), w.Machine.Seen.Name)
	}
	switch w.Step {
	case claims.WriteClaim:
		return r.carryOutClaim(ctx, s, machine, w.Machine)
	case claims.WriteNodeRef:
		before := machine.DeepCopy()
		machine.Status.NodeRef.Name = w.Machine.Want.NodeRef
		return r.Client.Status().Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	return r.writer().Change(ctx, machine, func() { applyToMachine(machine, w.Machine.Seen, w.Machine.Want) })
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
	theirs := metav1.HasAnnotation(m.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation) // set by the user, if there is no shield
	switch {
	case want.Shielded == seen.Shielded:
	case want.Shielded && !theirs:
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.ShieldAnnotation, "")
	case !want.Shielded:
		delete(m.Annotations, infrav1.ShieldAnnotation)
		if m.Annotations[clusterv1.MachineSkipRemediationAnnotation] == "" { // otherwise the user has set it since
			delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation)
		}
	}
}

// setHook puts a hook on a Machine that is not being deleted, or removes it.
func setHook(m *clusterv1.Machine, hook string, on bool) {
	switch {
	case !on:
		delete(m.Annotations, hook)
	case m.DeletionTimestamp.IsZero():
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, hook, "")
	}
}

// carryOutClaim binds the PortalMachine of a Machine to a Node, or releases it. Core copies no providerID from a PortalMachine
// that was deleted by hand, so then the Machine itself is changed.
func (r *Reconciler) carryOutClaim(ctx context.Context, s *scope, machine *clusterv1.Machine, c claims.Change[claims.Machine]) error {
	claim, id := s.claim(machine.Spec.InfrastructureRef.Name), c.Want.ClaimProviderID
	switch release := claims.IsReleased(id); {
	case claim == nil && release:
		return r.writer().Change(ctx, machine, func() { machine.Spec.ProviderID = id })
	case claim == nil:
		return apierrors.NewNotFound(infrav1.GroupVersion.WithResource("portalmachines").GroupResource(), machine.Spec.InfrastructureRef.Name)
	case release:
		return r.writer().Change(ctx, claim, func() { claim.Spec.ProviderID = id })
	case !claim.DeletionTimestamp.IsZero(), !c.Seen.Deleting && !machine.DeletionTimestamp.IsZero():
		return nil // it is being deleted: the next plan sees that
	}
	return r.writer().Change(ctx, claim, func() {
		claim.Spec.ProviderID = id
		claim.Spec.Node = &infrav1.BoundNode{Name: c.Want.ClaimNode, UID: c.Want.ClaimNodeUID}
	})
}

// machine returns the Machine as the plan has read it and the writes so far have changed it, or nil.
func (s *scope) machine(name string) *clusterv1.Machine {
	for i := range s.desired.machines {
		if m := &s.desired.machines[i]; m.Name == name {
			return m
		}
	}
	return nil
}

// claim returns the PortalMachine as the plan has read it and the writes so far have changed it, or nil.
func (s *scope) claim(name string) *infrav1.PortalMachine {
	for i := range s.claimed {
		if c := &s.claimed[i]; c.Name == name {
			return c
		}
	}
	return nil
}
