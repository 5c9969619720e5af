// SPDX-License-Identifier: Apache-2.0

// Package ownerref compares and corrects owner references to objects of Cluster API. An object that was restored from a backup
// has its owner's old UID. Kubernetes' garbage collector takes such an object for an orphan and deletes it.
package ownerref

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Kinds of owners.
const (
	Cluster           = "Cluster"
	MachineDeployment = "MachineDeployment"
	MachineSet        = "MachineSet"
)

// To returns the owner references of the object to objects of the kind.
func To(kind string, obj metav1.Object) (all []metav1.OwnerReference) {
	for _, reference := range obj.GetOwnerReferences() {
		if is(kind, reference) {
			all = append(all, reference)
		}
	}
	return all
}

// Stale reports whether an owner reference of the object names another Cluster than the present one, by name or by UID.
func Stale(obj metav1.Object, present *clusterv1.Cluster) bool {
	for _, reference := range To(Cluster, obj) {
		if reference.Name != present.Name || reference.UID != present.UID {
			return true
		}
	}
	return false
}

// Correct gives the owner references that name the present owner its UID.
func Correct(kind string, obj, present metav1.Object) {
	references := obj.GetOwnerReferences()
	for i := range references {
		if is(kind, references[i]) && references[i].Name == present.GetName() {
			references[i].UID = present.GetUID()
		}
	}
	obj.SetOwnerReferences(references)
}

// CorrectStale writes the UID of the owner into the object's references to it, if they have an earlier one. An object that is being deleted
// stays as it is.
func CorrectStale(ctx context.Context, writer client.Client, live client.Reader, obj client.Object, kind string, owner client.Object) error {
	stale := slices.ContainsFunc(To(kind, obj), func(reference metav1.OwnerReference) bool {
		return reference.Name == owner.GetName() && reference.UID != owner.GetUID()
	})
	if !stale || !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	present, before := owner.DeepCopyObject().(client.Object), obj.DeepCopyObject().(client.Object) // copies of Objects are Objects
	if err := live.Get(ctx, client.ObjectKeyFromObject(owner), present); err != nil {
		return client.IgnoreNotFound(err)
	}
	Correct(kind, obj, present)
	return client.IgnoreNotFound(writer.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// LetGo returns the change of a Machine whose cluster is being deleted or released. If the Machine is being deleted and its MachineSet or
// MachineDeployment is gone, the change also removes core's finalizer, because core does not reconcile such a Machine. A restored owner, with
// another UID than the reference has, counts as gone: core deletes it without waiting for its former dependents. Nothing is skipped: core
// neither drains nor deletes a node while the Cluster or its control plane is being deleted.
func LetGo(ctx context.Context, live client.Reader, m *clusterv1.Machine, change func()) (func(), error) {
	if m.DeletionTimestamp.IsZero() {
		return change, nil
	}
	abandoned, err := isAbandoned(ctx, live, m)
	if !abandoned || err != nil {
		return change, err
	}
	return func() {
		change()
		controllerutil.RemoveFinalizer(m, clusterv1.MachineFinalizer)
	}, nil
}

// isAbandoned reports whether the MachineSet that owns the Machine, or the MachineDeployment that owns the MachineSet, is gone.
func isAbandoned(ctx context.Context, live client.Reader, m *clusterv1.Machine) (bool, error) {
	set := &clusterv1.MachineSet{}
	for _, step := range []struct {
		kind      string
		of, owner client.Object
	}{{MachineSet, m, set}, {MachineDeployment, set, &clusterv1.MachineDeployment{}}} {
		for _, reference := range To(step.kind, step.of) {
			err := live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: reference.Name}, step.owner)
			switch {
			case apierrors.IsNotFound(err), err == nil && step.owner.GetUID() != reference.UID:
				return true, nil
			case err != nil:
				return false, fmt.Errorf("read %s %s: %w", step.kind, reference.Name, err)
			}
		}
	}
	return false, nil
}

func is(kind string, reference metav1.OwnerReference) bool {
	return reference.Kind == kind && strings.HasPrefix(reference.APIVersion, clusterv1.GroupVersion.Group+"/")
}
