// SPDX-License-Identifier: Apache-2.0

// Package ownedsecret keeps the owner of the Secrets that the provider writes. A Secret without its owner outlives the Cluster, and with it
// the credentials of the portal cluster. A restore makes such Secrets: the backup did not keep owner references, or it kept the UID of an
// object that does not exist any more.
package ownedsecret

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Restore makes owner the controller of the Secret, and reports whether it is. A Secret that does not have the type and the label that the
// contract of Cluster API demands was written by somebody else. It is left alone, and so is a Secret that another object controls. A
// controller of the owner's kind and name, but with another UID, is an earlier life of the owner.
func Restore(ctx context.Context, c client.Client, owner client.Object, clusterName string, secret *corev1.Secret) (bool, error) {
	if metav1.IsControlledBy(secret, owner) {
		return true, nil
	}
	if secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != clusterName {
		return false, nil
	}
	before := secret.DeepCopy()
	err := controllerutil.SetControllerReference(owner, secret, c.Scheme())
	if taken := (&controllerutil.AlreadyOwnedError{}); errors.As(err, &taken) {
		return false, nil
	}
	if err == nil {
		err = c.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return false, fmt.Errorf("restore the owner of Secret %s: %w", secret.Name, err)
	}
	return true, nil
}
