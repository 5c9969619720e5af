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

// LetGo returns the change of a Machine whose cluster is being deleted or released. If the garbage collector has deleted the Machine and its
// MachineSet, the change also removes core's finalizer, because core never reconciles a Machine whose MachineSet is gone. Nothing is skipped: core
// neither drains nor deletes a node while the Cluster or its control plane is being deleted.
func LetGo(ctx context.Context, live client.Reader, m *clusterv1.Machine, change func()) (func(), error) {
	if m.DeletionTimestamp.IsZero() {
		return change, nil
	}
	for _, reference := range To(MachineSet, m) {
		err := live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: reference.Name}, &clusterv1.MachineSet{})
		if apierrors.IsNotFound(err) {
			return func() {
				change()
				controllerutil.RemoveFinalizer(m, clusterv1.MachineFinalizer)
			}, nil
		}
		if err != nil {
			return change, fmt.Errorf("read MachineSet %s: %w", reference.Name, err)
		}
	}
	return change, nil
}

func is(kind string, reference metav1.OwnerReference) bool {
	return reference.Kind == kind && strings.HasPrefix(reference.APIVersion, clusterv1.GroupVersion.Group+"/")
}
