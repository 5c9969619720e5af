// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileNetwork finds or creates the network.
func (r *Reconciler) reconcileNetwork(ctx context.Context, s *scope) outcome.Outcome {
	network := s.portalCluster.Spec.Network
	if network == nil {
		return outcome.DoneWith("the portal creates an isolated network with the cluster")
	}
	state, err := operation.Load(s.portalCluster)
	if err != nil {
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	}
	if network.ID != "" {
		s.networkID = network.ID
		return r.abandon(ctx, s, &state)
	}
	if err := r.restoreNetwork(ctx, s, state.Op()); err != nil {
		return outcome.Fail(err)
	}
	if s.portalCluster.Annotations[infrav1.NetworkAnnotation] == "" {
		if s.exists && state.Op() == nil {
			s.networkID = s.created.NetworkID
			return outcome.DoneWith("the portal cluster exists, so no network is created from %s", network.CIDR)
		}
		if o := r.createNetwork(ctx, s, &state); !o.IsDone() {
			return o
		}
	}
	s.networkID = s.portalCluster.Annotations[infrav1.NetworkAnnotation]
	if last := state.Last; last.Is(operation.CreateNetwork) && last.Target != network.CIDR {
		return outcome.StallFor(0, infrav1.RefusedReason, "network %s was created from %s. Set spec.network.id to its id, or to that of another network",
			s.networkID, last.Target)
	}
	return outcome.DoneWith("network %s was created from %s", s.networkID, network.CIDR)
}

// restoreNetwork writes the annotation with the network's id again after a user has replaced the object by a manifest without it.
// The status survives such a replacement.
func (r *Reconciler) restoreNetwork(ctx context.Context, s *scope, op *operation.Operation) error {
	id := s.portalCluster.Status.NetworkID
	if id == "" || op != nil || !s.upToDate() || s.portalCluster.Annotations[infrav1.NetworkAnnotation] != "" {
		return nil
	}
	return r.writer().Change(ctx, s.portalCluster, func() {
		metav1.SetMetaDataAnnotation(&s.portalCluster.ObjectMeta, infrav1.NetworkAnnotation, id)
	})
}

// abandon ends an unfinished creation, because spec names the network or VPC that it created, or another one.
func (r *Reconciler) abandon(ctx context.Context, s *scope, state *operation.State) outcome.Outcome {
	if state.Op() == nil {
		return outcome.Outcome{}
	}
	return r.runner(s, state).Finish(ctx, operation.Abandoned, "")
}

// createNetwork starts the creation, or takes the one in flight a step further. The portal can neither list nor delete networks, so
// a network that an interrupted call may have created cannot be found.
func (r *Reconciler) createNetwork(ctx context.Context, s *scope, state *operation.State) (o outcome.Outcome) {
	runner, cidr := r.runner(s, state), s.portalCluster.Spec.Network.CIDR
	if state.Op() != nil {
		o = runner.Poll(ctx)
	} else {
		o, _ = runner.Start(ctx, newCreation(s, operation.CreateNetwork, cidr), func(ctx context.Context) (cloud.Created, error) {
			return s.identity.Portal.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: cidr})
		})
	}
	return operation.Progress(state.Op(), o, infrav1.CreatingReason)
}

// newCreation returns an operation that creates what the target names. The same target under the same identity is the same attempt.
func newCreation(s *scope, t operation.Type, target string) *operation.Operation {
	op := operation.New(t, target)
	op.Attempt = target + " " + s.identity.Version
	return op
}

func (r *Reconciler) runner(s *scope, state *operation.State) operation.Runner {
	return operation.Runner{
		Object: s.portalCluster, State: state, Writer: r.writer(), Calls: r.Calls, Backoff: &r.memory(s).backoff, Recorder: r.Recorder, Observe: metrics.JobEnded,
		Portal: s.identity.Portal, CreationsHeld: s.identity.CreationsHeld, Flow: client.ObjectKeyFromObject(s.portalCluster).String() + "/network",
	}
}
