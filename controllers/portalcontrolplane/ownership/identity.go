// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// RecordInIdentity records in the PortalClusterIdentity that the portal cluster belongs to this object, as long as the
// namespace may use the identity.
func (k *Owners) RecordInIdentity(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if !p.Infrastructure.IsDone() || p.Identity.Shared == "" || !p.Owns() {
		return outcome.Outcome{}
	}
	if err := k.Identities.RecordCluster(ctx, p.Identity, p.ControlPlane.Namespace, p.ControlPlane.Spec.ClusterID); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// RemoveFromIdentity removes the record when the object goes, unless another object owns the portal cluster and needs the
// record to delete it.
func (k *Owners) RemoveFromIdentity(ctx context.Context, p *pass.Pass) error {
	if p.Identity.Shared == "" {
		return nil
	}
	if mine, err := k.MayDelete(ctx, p); err != nil || !mine {
		return err
	}
	return k.Identities.ForgetCluster(ctx, p.Identity, p.ControlPlane.Namespace, p.ControlPlane.Spec.ClusterID)
}
