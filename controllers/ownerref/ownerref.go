// SPDX-License-Identifier: Apache-2.0

// Package ownerref compares and corrects owner references to objects of Cluster API. An object that was restored from a backup
// has its owner's old UID. Kubernetes' garbage collector takes such an object for an orphan and deletes it.
package ownerref

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

func is(kind string, reference metav1.OwnerReference) bool {
	return reference.Kind == kind && strings.HasPrefix(reference.APIVersion, clusterv1.GroupVersion.Group+"/")
}
