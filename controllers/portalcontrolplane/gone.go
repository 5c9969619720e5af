// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// A portal cluster is gone if the portal answers 404 to the request for its kubeconfig, under the portal user that the cluster
// belongs to. While the cluster works, no request is sent for this alone: a deleted cluster has no API server, and a lost
// connection causes a fetch of the kubeconfig. The condition Provisioned stores the result. In that state the portal is asked
// again with the backoff of refused requests (30 s, doubling to 10 min), so a mistake of the portal heals quickly, and a cluster
// that is gone costs 6 requests an hour. After a restart of the manager, the portal is asked at once.

// ownerPoll is how often the provider checks whether the portal can be asked again. A change of the identity usually wakes the
// object sooner.
const ownerPoll = time.Minute

const goneKey = "gone" // of the backoff

// reconcileExistence is done unless the portal does not know the cluster.
func (r *Reconciler) reconcileExistence(ctx context.Context, s *scope) outcome.Outcome {
	if refused, found := r.memory(s).backoff.Recall(goneKey, s.goneAttempt()); found {
		return refused
	}
	switch conditions.GetReason(s.controlPlane, infrav1.ProvisionedCondition) {
	case infrav1.PortalClusterGoneReason, infrav1.AccountChangedReason:
		return r.askExistence(ctx, s)
	}
	return outcome.Outcome{}
}

// askExistence asks the portal for the kubeconfig only to find out whether it knows the cluster. Without an answer, the
// conditions stay as they are.
func (r *Reconciler) askExistence(ctx context.Context, s *scope) outcome.Outcome {
	if !s.infrastructure.IsDone() {
		return outcome.RetryAfter(ownerPoll)
	}
	_, err := s.identity.Portal.Kubeconfig(ctx, s.controlPlane.Spec.ClusterID)
	switch {
	case cloud.IsNotFound(err):
		return r.reportGone(ctx, s)
	case err != nil && !cloud.IsNotAllowed(err) && !cloud.IsBusy(err):
		o := outcome.FromPortalError(err)
		return outcome.RetryAfter(max(o.RequeueAfter, connectionRetry))
	}
	r.memory(s).backoff.Forget(goneKey)
	return outcome.Outcome{}
}

// reportGone reports what a 404 means. It sets the outcome of the step Provisioned, which may have ended before.
func (r *Reconciler) reportGone(ctx context.Context, s *scope) outcome.Outcome {
	id := s.controlPlane.Spec.ClusterID
	o := r.runner(s).NotFound(ctx, "cluster "+id)
	switch {
	case o.Kind == outcome.Retry:
		return o
	case o.IsDone():
		o = outcome.StallFor(0, infrav1.PortalClusterGoneReason, "the portal does not know cluster %s, because it was deleted at the portal or the id is "+
			"wrong. Set spec.clusterID to the id of another portal cluster, or delete the Cluster", id)
	}
	o = r.memory(s).backoff.Refuse(goneKey, s.goneAttempt(), o)
	s.outcomes[infrav1.ProvisionedCondition] = o
	return o
}

// goneAttempt changes with the id and the credentials, so after such a change the portal is asked at once.
func (s *scope) goneAttempt() string { return s.controlPlane.Spec.ClusterID + " " + s.identity.Version }

// refusedUnknown returns the outcome of a request that the portal refused because it does not know the cluster, or another
// resource that the request names.
func (r *Reconciler) refusedUnknown(ctx context.Context, s *scope, o outcome.Outcome) outcome.Outcome {
	if gone := r.askExistence(ctx, s); gone.IsDone() {
		return o
	}
	return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
}
