// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"

	"context"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Ensure makes sure that the portal cluster exists. It is created once, or adopted by its id.
func (k *Clusters) Ensure(ctx context.Context, p *pass.Pass, request func(context.Context) (cloud.CreateClusterRequest, outcome.Outcome)) outcome.Outcome {
	if p.Op() == nil && !p.Owns() {
		if o := ownership.AwaitReference(p); !o.IsDone() {
			return o
		}
	}
	if p.ControlPlane.Spec.ClusterID != "" {
		if o := k.Ownership.Claim(ctx, p); !o.IsDone() {
			return o
		}
		return p.Existence(ctx)
	}
	if !p.Infrastructure.IsDone() {
		return p.Infrastructure
	}
	if p.Op() != nil { // an unfinished creation needs none of the inputs
		return otherZone(p, k.pollCreation(ctx, p))
	}
	if p.BeingDeleted() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so no portal cluster is created")
	}
	asked, o := request(ctx)
	if !o.IsDone() {
		return o
	}
	if o := k.Ownership.HoldRestored(ctx, p); !o.IsDone() {
		return o
	}
	if err := ensureName(ctx, p); err != nil {
		return outcome.Fail(err)
	}
	return otherZone(p, k.create(ctx, p, asked))
}

// otherZone adds to a creation for which the zone lacks capacity that the user can choose another zone.
func otherZone(p *pass.Pass, o outcome.Outcome) outcome.Outcome {
	if o.Reason == infrav1.InsufficientCapacityReason {
		o.Message += fmt.Sprintf(". To use another zone, set spec.zoneID of PortalCluster %s", p.PortalCluster.Name)
	}
	return o
}

// create sends the request for the portal cluster.
func (k *Clusters) create(ctx context.Context, p *pass.Pass, request cloud.CreateClusterRequest) outcome.Outcome {
	request.Name = p.ControlPlane.Spec.ClusterName
	op := operation.New(operation.Create, request.Name)
	op.Attempt, op.Record = fingerprint(request)+" "+p.Identity.Version, recordOf(p, request)
	o, refused := p.Runner().Refused(op)
	if !refused {
		if o = checkName(ctx, p, op); !o.IsDone() {
			return p.Runner().Refuse(op, o)
		}
		o, _ = p.Runner().Start(ctx, op, func(ctx context.Context) (cloud.Created, error) { // which may outlive the pass
			job, err := p.Identity.Portal.CreateCluster(ctx, request)
			if refusesVersion(err) {
				k.refuseVersion(p, request.KubernetesVersionID)
			}
			return cloud.Created{Job: job}, err
		})
	}
	if request.Size < p.Record.MinWorkers {
		return outcome.RetryAfter(0) // the next request has one worker
	}
	return operation.Progress(p.Op(), o, infrav1.CreatingReason)
}

// recordOf returns the record of the cluster that the request asks for.
func recordOf(p *pass.Pass, request cloud.CreateClusterRequest) *operation.Record {
	return &operation.Record{
		UID:            p.ControlPlane.UID,
		Name:           p.Record.Name,
		Size:           request.Size,
		MinWorkers:     p.Record.MinWorkers,
		Version:        p.ControlPlane.Spec.Version,
		Workers:        &infrav1.WorkerParameters{ServiceOfferingID: request.ServiceOfferingID, SSHKeyPair: request.SSHKeyPair},
		ZoneID:         request.ZoneID,
		NetworkID:      request.NetworkID,
		VPCID:          request.VPCID,
		AbandonedNames: p.Record.AbandonedNames,
		Failures:       p.Record.Failures,
	}
}

// checkName records whose cluster the creation makes. A name that a person chose must not be taken, if the portal supports the
// lookup (specification, Limits 4: look the resource up first). A generated name was never used before.
func checkName(ctx context.Context, p *pass.Pass, op *operation.Operation) outcome.Outcome {
	var err error
	if op.Record.UserID, err = p.Identity.Portal.UserID(ctx); err != nil {
		return outcome.FromPortalError(err)
	}
	if p.Record.Generated(op.Target) {
		return outcome.Outcome{}
	}
	found, err := p.Identity.Portal.FindClusters(ctx, op.Target)
	switch {
	case err != nil && !cloud.IsUnsupported(err):
		return outcome.FromPortalError(err)
	case len(found) > 0:
		return outcome.StallFor(0, infrav1.RefusedReason, "the portal already has a cluster named %q (id %s). Set spec.clusterID to its id, "+
			"or choose another spec.clusterName", op.Target, found[0].ID)
	}
	return outcome.Outcome{}
}

// pollCreation takes the creation in flight one step further.
func (k *Clusters) pollCreation(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if o := k.Ownership.FollowPortal(ctx, p); !o.IsDone() {
		return o
	}
	o := p.Runner().Poll(ctx)
	if o.IsDone() && p.ControlPlane.Spec.ClusterID != "" {
		return k.Ownership.Claim(ctx, p)
	}
	return operation.Progress(p.Op(), o, infrav1.CreatingReason)
}

// fingerprint identifies the content of the request except the name, which changes after a failure. Two requests with one fingerprint are one
// attempt.
func fingerprint(request cloud.CreateClusterRequest) string {
	request.Name = ""
	request.Size = operation.AttemptSize(request.Size)
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%+v", request)
	return strconv.FormatUint(hash.Sum64(), 36)
}

// ensureName generates the portal cluster's name again if it was removed from spec before the portal was first asked.
func ensureName(ctx context.Context, p *pass.Pass) error {
	if p.ControlPlane.Spec.ClusterName != "" {
		return nil
	}
	return p.Change(ctx, func(next *operation.State) { ownership.NameCluster(p, next) })
}
