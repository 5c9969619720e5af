// SPDX-License-Identifier: Apache-2.0

// Package ownerref compares and corrects owner references to Clusters. An object that was restored from a backup carries the UID of
// the Cluster it had then. Kubernetes' garbage collector takes such an object for an orphan and deletes it.
package ownerref

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ToClusters returns the owner references of the object to Clusters.
func ToClusters(obj metav1.Object) (all []metav1.OwnerReference) {
	for _, reference := range obj.GetOwnerReferences() {
		if isCluster(reference) {
			all = append(all, reference)
		}
	}
	return all
}

// Stale reports whether an owner reference of the object names a Cluster other than the present one.
func Stale(obj metav1.Object, present *clusterv1.Cluster) bool {
	for _, reference := range ToClusters(obj) {
		if reference.Name != present.Name || reference.UID != present.UID {
			return true
		}
	}
	return false
}

// Correct gives the owner references that name the present Cluster its UID.
func Correct(obj metav1.Object, present *clusterv1.Cluster) {
	references := obj.GetOwnerReferences()
	for i := range references {
		if isCluster(references[i]) && references[i].Name == present.Name {
			references[i].UID = present.UID
		}
	}
	obj.SetOwnerReferences(references)
}

func isCluster(reference metav1.OwnerReference) bool {
	return reference.Kind == "Cluster" && strings.HasPrefix(reference.APIVersion, clusterv1.GroupVersion.Group+"/")
}
