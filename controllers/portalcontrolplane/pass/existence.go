// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"context"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// A portal cluster is gone if the portal answers 404 to the request for its kubeconfig, under the portal user that the cluster
// belongs to. While the cluster works, no request is sent for this alone: a deleted cluster has no API server, and a lost
// connection causes a fetch of the kubeconfig. The condition Provisioned stores the result. In that state the portal is asked
// again with the backoff of refused requests (30 s, doubling to 10 min), so a mistake of the portal heals quickly, and a cluster
// that is gone costs 6 requests an hour. After a restart of the manager, the portal is asked at once.

const (
	// ownerPoll is how often the provider checks whether the portal can be asked again. A change of the identity usually wakes the
	// object sooner.
	ownerPoll = time.Minute
	// notRunningRetry is how often the provider asks for the kubeconfig of a cluster that is not running yet.
	notRunningRetry = 15 * time.Second

	goneKey = "gone" // of the backoff

	// WhyMissing is the reason to ask for a kubeconfig that was never fetched.
	WhyMissing = "missing"
)

// Existence is done unless the portal does not know the cluster.
func (p *Pass) Existence(ctx context.Context) outcome.Outcome {
	if refused, found := p.Backoff.Recall(goneKey, p.goneAttempt()); found {
		return refused
	}
	switch conditions.GetReason(p.ControlPlane, infrav1.ProvisionedCondition) {
	case infrav1.PortalClusterGoneReason, infrav1.AccountChangedReason:
		return p.askExistence(ctx)
	}
	return outcome.Outcome{}
}

// askExistence asks the portal for the kubeconfig only to find out whether it knows the cluster. Without an answer, the
// conditions stay as they are.
func (p *Pass) askExistence(ctx context.Context) outcome.Outcome {
	if !p.Infrastructure.IsDone() {
		return outcome.RetryAfter(ownerPoll)
	}
	_, err := p.Identity.Portal.Kubeconfig(ctx, p.ControlPlane.Spec.ClusterID)
	switch {
	case cloud.IsNotFound(err):
		return p.reportGone(ctx, err)
	case err != nil && !cloud.IsNotAllowed(err) && !cloud.IsBusy(err):
		return outcome.Unanswered(err)
	}
	p.Backoff.Forget(goneKey)
	return outcome.Outcome{}
}

// AskKubeconfig asks the portal for the kubeconfig, and makes use of it, unless that failed or changed nothing a short time ago.
func (p *Pass) AskKubeconfig(ctx context.Context, why string, use func(config []byte) outcome.Outcome) outcome.Outcome {
	if !p.Infrastructure.IsDone() {
		return p.Infrastructure
	}
	id := p.ControlPlane.Spec.ClusterID
	var gone error
	o := p.Backoff.Do("kubeconfig/"+why, id+" "+p.Identity.Version, func() outcome.Outcome {
		config, err := p.Identity.Portal.Kubeconfig(ctx, id)
		switch {
		case cloud.IsNotFound(err):
			gone = err
			return outcome.RetryAfter(0)
		case cloud.IsNotAllowed(err), cloud.IsBusy(err):
			return outcome.WaitFor(notRunningRetry, infrav1.WaitingForDependencyReason,
				"the cluster is not Running yet%s. The portal returns the kubeconfig when it is", outcome.RequestID(err))
		case err != nil:
			return outcome.FromPortalError(err).Prefix("fetch the kubeconfig of cluster %s", id)
		}
		return use(config)
	})
	if gone != nil {
		return p.reportGone(ctx, gone)
	}
	return o
}

// reportGone reports what a 404, the error, means. It sets Gone, because the step that makes sure that the cluster exists may have ended before.
func (p *Pass) reportGone(ctx context.Context, answer error) outcome.Outcome {
	what := "cluster " + p.ControlPlane.Spec.ClusterID + outcome.RequestID(answer)
	o := p.Runner().NotFound(ctx, what)
	switch {
	case o.Kind == outcome.Retry:
		return o
	case o.IsDone():
		o = outcome.StallFor(0, infrav1.PortalClusterGoneReason, "the portal does not know %s, because it was deleted at the portal or the id is "+
			"wrong. Set spec.clusterID to the id of another portal cluster, or delete the Cluster", what)
	}
	p.Gone = p.Backoff.Refuse(goneKey, p.goneAttempt(), o)
	return p.Gone
}

// goneAttempt changes with the id and the credentials, so after such a change the portal is asked at once.
func (p *Pass) goneAttempt() string { return p.ControlPlane.Spec.ClusterID + " " + p.Identity.Version }

// refusedUnknown returns the outcome of a request that the portal refused because it does not know the cluster, or another
// resource that the request names.
func (p *Pass) refusedUnknown(ctx context.Context, o outcome.Outcome) outcome.Outcome {
	if gone := p.askExistence(ctx); gone.IsDone() {
		return o
	}
	return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
}
