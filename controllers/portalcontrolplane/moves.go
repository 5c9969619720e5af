// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
)

// carryOut does one move of a plan: one write, on an object that was just read past the cache.
func (r *Reconciler) carryOut(ctx context.Context, s *scope, move claims.Move) error {
	switch {
	case move.Kind.OfNode():
		return r.carryOutNode(ctx, s, move)
	case move.Kind == claims.Bind || move.Kind == claims.Swap || move.Kind == claims.Detach:
		return r.carryOutClaim(ctx, s, move)
	}
	return r.carryOutMachine(ctx, s, move)
}

func (r *Reconciler) carryOutMachine(ctx context.Context, s *scope, move claims.Move) error {
	machine := &clusterv1.Machine{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: move.Machine}, machine); err != nil {
		return err
	}
	switch move.Kind {
	case claims.AddHooks:
		return r.changeMachine(ctx, machine, func() {
			if machine.DeletionTimestamp.IsZero() {
				metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.PreDrainHook, "")
				metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.PreTerminateHook, "")
			}
		})
	case claims.DeleteFirst:
		return r.changeMachine(ctx, machine, func() { metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.DeleteMachineAnnotation, "") })
	case claims.Shield:
		return r.changeMachine(ctx, machine, func() { shield(machine) })
	case claims.Unshield:
		return r.changeMachine(ctx, machine, func() {
			delete(machine.Annotations, infrav1.ShieldAnnotation)
			delete(machine.Annotations, clusterv1.MachineSkipRemediationAnnotation)
		})
	case claims.StartDrain:
		return r.changeMachine(ctx, machine, func() { delete(machine.Annotations, infrav1.PreDrainHook) })
	case claims.LetGo:
		return r.letGo(ctx, machine)
	case claims.PointAtNode:
		return r.changeNodeRef(ctx, machine, clusterv1.MachineNodeReference{Name: move.Node.Name})
	case claims.ForgetNode:
		return r.changeNodeRef(ctx, machine, clusterv1.MachineNodeReference{})
	}
	return fmt.Errorf("move %d is not for a Machine", move.Kind)
}

// shield keeps MachineHealthChecks away. An annotation that the user has set is left alone.
func shield(machine *clusterv1.Machine) {
	if !metav1.HasAnnotation(machine.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation) {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.ShieldAnnotation, "")
	}
}

func (r *Reconciler) letGo(ctx context.Context, machine *clusterv1.Machine) error {
	return r.changeMachine(ctx, machine, func() {
		delete(machine.Annotations, infrav1.PreDrainHook)
		delete(machine.Annotations, infrav1.PreTerminateHook)
	})
}

func (r *Reconciler) changeMachine(ctx context.Context, machine *clusterv1.Machine, change func()) error {
	before := machine.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(before.Annotations, machine.Annotations) {
		return nil
	}
	return r.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) changeNodeRef(ctx context.Context, machine *clusterv1.Machine, ref clusterv1.MachineNodeReference) error {
	before := machine.DeepCopy()
	machine.Status.NodeRef = ref
	return r.Client.Status().Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// carryOutClaim binds a PortalMachine to a Node, or gives its Node back.
func (r *Reconciler) carryOutClaim(ctx context.Context, s *scope, move claims.Move) error {
	machine := &clusterv1.Machine{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: move.Machine}, machine); err != nil {
		return err
	}
	claim := &infrav1.PortalMachine{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
	released := claims.ReleasedProviderID(s.controlPlane.Spec.ClusterID, machine.Name)
	err := r.Live.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) && move.Kind == claims.Detach {
		return r.detachMachine(ctx, machine, released)
	}
	if err != nil {
		return err
	}
	before := claim.DeepCopy()
	if move.Kind == claims.Detach {
		claim.Spec.ProviderID = released
	} else {
		if !claim.DeletionTimestamp.IsZero() || move.Kind == claims.Bind && !machine.DeletionTimestamp.IsZero() {
			return nil // it is leaving: the next plan knows
		}
		claim.Spec.ProviderID = move.Node.ProviderID
		claim.Spec.Node = &infrav1.BoundNode{Name: move.Node.Name, UID: move.Node.UID}
	}
	return r.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// detachMachine releases a Machine whose PortalMachine was deleted by hand: core copies no providerID from it any more.
func (r *Reconciler) detachMachine(ctx context.Context, machine *clusterv1.Machine, released string) error {
	before := machine.DeepCopy()
	machine.Spec.ProviderID = released
	return r.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
