// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	switch move.Kind {
	case claims.NameNode:
		return r.nameNode(ctx, s, move.Node)
	case claims.Uncordon:
		return client.IgnoreNotFound(r.changeNode(ctx, s, move.Node.Name, uncordon))
	case claims.Bind, claims.Swap, claims.Detach:
		return r.carryOutClaim(ctx, s, move)
	default:
		return r.carryOutMachine(ctx, s, move)
	}
}

// nameNode gives a Node a providerID, unless somebody else was faster: then the next plan knows that one.
func (r *Reconciler) nameNode(ctx context.Context, s *scope, node claims.Node) error {
	taken := false
	err := r.changeNode(ctx, s, node.Name, func(n *corev1.Node) {
		if n.Spec.ProviderID == "" {
			n.Spec.ProviderID = node.ProviderID
		}
		taken = n.Spec.ProviderID != node.ProviderID
	})
	if err == nil && taken {
		return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it has another providerID"))
	}
	return err
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
	case claims.Mark:
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
	case claims.NameNode, claims.Bind, claims.Swap, claims.Detach, claims.Uncordon:
	}
	return fmt.Errorf("move %d is not for a Machine", move.Kind)
}

// shield keeps MachineHealthChecks away; an annotation that somebody else has set stays theirs.
func shield(machine *clusterv1.Machine) {
	if !metav1.HasAnnotation(machine.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation) {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.ShieldAnnotation, "")
	}
}

// autoscalerTaint is put on a node that the cluster autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// uncordon makes a node schedulable again, for core and for the cluster autoscaler.
func uncordon(n *corev1.Node) {
	n.Spec.Unschedulable = false
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
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

// detachMachine releases a Machine whose PortalMachine somebody has deleted: core hands no providerID on any more.
func (r *Reconciler) detachMachine(ctx context.Context, machine *clusterv1.Machine, released string) error {
	before := machine.DeepCopy()
	machine.Spec.ProviderID = released
	return r.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) changeNode(ctx context.Context, s *scope, name string, change func(*corev1.Node)) error {
	workload, err := r.ClusterCache.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	change(node)
	return workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
