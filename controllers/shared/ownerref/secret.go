// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

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
