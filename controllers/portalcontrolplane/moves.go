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

// carryOut does one move of a plan: one write, on an object that the plan has read past the cache. If the object was changed
// since, for example by core, it is read again once.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, move claims.Move) error {
	switch {
	case move.Kind.OfNode():
		return r.carryOutNode(ctx, s, move)
	case move.Kind.OfPool():
		return r.carryOutPool(ctx, s, move)
	}
	err := r.carryOutMachine(ctx, s, move)
	if !apierrors.IsConflict(err) {
		return err
	}
	machine, freshMachine, freshClaim := s.machine(move.Machine), &clusterv1.Machine{}, &infrav1.PortalMachine{}
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
	return r.carryOutMachine(ctx, s, move)
}

// carryOutMachine does one move of a Machine or its PortalMachine.
func (r *Reconciler) carryOutMachine(ctx context.Context, s *scope, move claims.Move) error {
	machine := s.machine(move.Machine)
	if machine == nil {
		return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machines").GroupResource(), move.Machine)
	}
	switch move.Kind {
	case claims.Bind, claims.Swap, claims.Detach:
		return r.carryOutClaim(ctx, s, machine, move)
	case claims.PointAtNode, claims.ForgetNode:
		before := machine.DeepCopy()
		machine.Status.NodeRef.Name = move.Node.Name
		return r.Client.Status().Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	return r.writer().Change(ctx, machine, func() { applyToMachine(machine, move.Kind) })
}

// applyToMachine makes the change of a move.
func applyToMachine(m *clusterv1.Machine, kind claims.MoveKind) {
	switch kind {
	case claims.AddHooks:
		if m.DeletionTimestamp.IsZero() {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.PreDrainHook, "")
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.PreTerminateHook, "")
		}
	case claims.StartDrain:
		delete(m.Annotations, infrav1.PreDrainHook)
	case claims.RemoveHooks:
		delete(m.Annotations, infrav1.PreDrainHook)
		delete(m.Annotations, infrav1.PreTerminateHook)
	case claims.DeleteFirst:
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.DeleteMachineAnnotation, "")
	case claims.Shield:
		if !metav1.HasAnnotation(m.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation) { // otherwise the user has set it
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.ShieldAnnotation, "")
		}
	case claims.Unshield:
		delete(m.Annotations, infrav1.ShieldAnnotation)
		if m.Annotations[clusterv1.MachineSkipRemediationAnnotation] == "" { // otherwise the user has set it since
			delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation)
		}
	}
}

// carryOutClaim binds the PortalMachine of a Machine to a Node, or releases it. Core copies no providerID from a PortalMachine
// that was deleted by hand, so then the Machine itself is changed.
func (r *Reconciler) carryOutClaim(ctx context.Context, s *scope, machine *clusterv1.Machine, move claims.Move) error {
	claim, detach := s.claim(machine.Spec.InfrastructureRef.Name), move.Kind == claims.Detach
	released := claims.ReleasedProviderID(s.ControlPlane.Spec.ClusterID, machine.Name)
	switch {
	case claim == nil && detach:
		return r.writer().Change(ctx, machine, func() { machine.Spec.ProviderID = released })
	case claim == nil:
		return apierrors.NewNotFound(infrav1.GroupVersion.WithResource("portalmachines").GroupResource(), machine.Spec.InfrastructureRef.Name)
	case detach:
		return r.writer().Change(ctx, claim, func() { claim.Spec.ProviderID = released })
	case !claim.DeletionTimestamp.IsZero(), move.Kind == claims.Bind && !machine.DeletionTimestamp.IsZero():
		return nil // it is being deleted: the next plan sees that
	}
	return r.writer().Change(ctx, claim, func() {
		claim.Spec.ProviderID = move.Node.ProviderID
		claim.Spec.Node = &infrav1.BoundNode{Name: move.Node.Name, UID: move.Node.UID}
	})
}

// machine returns the Machine as the plan has read it and the moves so far have changed it, or nil.
func (s *scope) machine(name string) *clusterv1.Machine {
	for i := range s.desired.machines {
		if m := &s.desired.machines[i]; m.Name == name {
			return m
		}
	}
	return nil
}

// claim returns the PortalMachine as the plan has read it and the moves so far have changed it, or nil.
func (s *scope) claim(name string) *infrav1.PortalMachine {
	for i := range s.claimed {
		if c := &s.claimed[i]; c.Name == name {
			return c
		}
	}
	return nil
}
