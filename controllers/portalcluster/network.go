// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileNetwork finds or creates the network.
func (r *Reconciler) reconcileNetwork(ctx context.Context, s *scope) outcome.Outcome {
	network := s.portalCluster.Spec.Network
	if network == nil {
		return outcome.DoneWith("the portal creates an isolated network with the cluster")
	}
	op, err := operation.Load(s.portalCluster)
	if err != nil {
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	}
	if network.ID != "" {
		s.networkID = network.ID
		return r.adoptNetwork(ctx, s, op)
	}
	if err := r.restoreNetwork(ctx, s, op); err != nil {
		return outcome.Fail(err)
	}
	if s.portalCluster.Annotations[infrav1.NetworkAnnotation] == "" {
		if o := r.createNetwork(ctx, s, op); !o.IsDone() {
			return o
		}
	}
	s.networkID = s.portalCluster.Annotations[infrav1.NetworkAnnotation]
	return outcome.DoneWith("network %s was created from %s", s.networkID, network.CIDR)
}

// restoreNetwork writes the annotation with the network's id again after a user has replaced the object by a manifest without it.
// The status survives such a replacement.
func (r *Reconciler) restoreNetwork(ctx context.Context, s *scope, op *operation.Operation) error {
	id := s.portalCluster.Status.NetworkID
	if id == "" || op.InFlight() || s.portalCluster.Annotations[infrav1.NetworkAnnotation] != "" {
		return nil
	}
	return r.writer().Change(ctx, s.portalCluster, func() {
		metav1.SetMetaDataAnnotation(&s.portalCluster.ObjectMeta, infrav1.NetworkAnnotation, id)
	})
}

// adoptNetwork ends an unfinished creation: spec.network.id names the network that it created.
func (r *Reconciler) adoptNetwork(ctx context.Context, s *scope, op *operation.Operation) outcome.Outcome {
	if op.InFlight() {
		if o := r.runner(s).Finish(ctx, op, operation.Abandoned, "", networkCreation{s}); !o.IsDone() {
			return o
		}
	}
	return outcome.Outcome{}
}

// createNetwork starts the creation, or takes the one in flight a step further.
func (r *Reconciler) createNetwork(ctx context.Context, s *scope, op *operation.Operation) (o outcome.Outcome) {
	if op.InFlight() {
		o = r.runner(s).Poll(ctx, networkCreation{s})
	} else {
		op = operation.New(operation.CreateNetwork, s.portalCluster.Spec.Network.CIDR)
		op.Attempt = op.Target + " " + s.identity.Version
		o = r.runner(s).Start(ctx, op, networkCreation{s})
	}
	op, err := operation.Load(s.portalCluster)
	if err != nil {
		return outcome.Fail(err)
	}
	return operation.Progress(op, o, infrav1.CreatingReason)
}

// networkCreation is a request for a network from a CIDR. The portal can neither list nor delete networks, so a network that an
// interrupted call may have created cannot be found.
type networkCreation struct{ s *scope }

// Send implements operation.Request.
func (q networkCreation) Send(ctx context.Context) (cloud.Created, error) {
	return q.s.identity.Portal.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: q.s.portalCluster.Spec.Network.CIDR})
}

// UpdateObject implements operation.Request.
func (q networkCreation) UpdateObject(op *operation.Operation, id string, _ error) {
	if op.Result == operation.Succeeded {
		metav1.SetMetaDataAnnotation(&q.s.portalCluster.ObjectMeta, infrav1.NetworkAnnotation, id)
	}
}

func (r *Reconciler) runner(s *scope) operation.Runner {
	return operation.Runner{
		Object: s.portalCluster, Writer: r.writer(), Backoff: &r.memory(s).backoff, Recorder: r.Recorder, Observe: metrics.JobEnded,
		Portal: s.identity.Portal, Flow: client.ObjectKeyFromObject(s.portalCluster).String() + "/network",
	}
}
