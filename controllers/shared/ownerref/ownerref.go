// SPDX-License-Identifier: Apache-2.0

// Package ownerref compares and corrects owner references to objects of Cluster API. An object that was restored from a backup
// has its owner's old UID. Kubernetes' garbage collector takes such an object for an orphan and deletes it.
package ownerref

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// linkTime is how long core may take to make itself the owner of a new object before the object reports that it has none. Core
// takes a second or two, or longer under load. Reporting earlier would cost one request for each object, and the report would be
// outdated at once.
const linkTime = 10 * time.Second

// Awaited returns how long to wait for the object's owner before the object is reconciled again, or 0.
func Awaited(obj metav1.Object, owned bool) time.Duration {
	if owned || obj.GetDeletionTimestamp() != nil {
		return 0
	}
	return min(linkTime, max(0, linkTime-time.Since(obj.GetCreationTimestamp().Time))) // the API server's clock may be ahead
}

// RestoreSecret makes owner the controller of a Secret that the provider wrote, and reports whether it is. Without its owner, the
// Secret and its credentials would outlive the Cluster. A reference with an old API version is updated, because an API server
// that no longer serves that version cannot find the owner. A Secret without the type and the label that the contract of Cluster
// API demands was not written by the provider, so it is left alone. So is a Secret that another object controls. A controller of
// the owner's kind and name but with another UID is the owner before a restore.
func RestoreSecret(ctx context.Context, c client.Client, owner client.Object, clusterName string, secret *corev1.Secret) (bool, error) {
	if secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != clusterName {
		return metav1.IsControlledBy(secret, owner), nil
	}
	before := secret.DeepCopy()
	err := controllerutil.SetControllerReference(owner, secret, c.Scheme())
	if taken := (&controllerutil.AlreadyOwnedError{}); errors.As(err, &taken) {
		return false, nil
	}
	if err == nil && equality.Semantic.DeepEqual(before.OwnerReferences, secret.OwnerReferences) {
		return true, nil
	}
	if err == nil {
		err = c.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return false, fmt.Errorf("restore the owner of Secret %s: %w", secret.Name, err)
	}
	return true, nil
}
