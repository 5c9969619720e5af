// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/controllers/ownedsecret"
)

// restoreKubeconfigOwner makes the control plane the owner of the stored kubeconfig again, so that the credentials go with the Cluster. A
// kubeconfig that the user or another controller provides keeps its owner.
func (r *Reconciler) restoreKubeconfigOwner(ctx context.Context, s *scope, stored *corev1.Secret) error {
	_, err := ownedsecret.Restore(ctx, r.Client, s.controlPlane, s.cluster.Name, stored)
	return err
}
