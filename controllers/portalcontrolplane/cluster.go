// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownership"
)

// reconcileCluster makes sure that the portal cluster exists. It is created once, or adopted by its id.
func (r *Reconciler) reconcileCluster(ctx context.Context, s *scope) outcome.Outcome {
	if s.ControlPlane.Spec.ClusterID != "" {
		if o := r.Ownership.Claim(ctx, &s.Pass); !o.IsDone() {
			return o
		}
		if o := r.Ownership.RecordInIdentity(ctx, &s.Pass); !o.IsDone() {
			return o
		}
		return s.Existence(ctx)
	}
	if !s.Infrastructure.IsDone() {
		return s.Infrastructure
	}
	if s.Op() != nil { // an unfinished creation needs none of the inputs
		return r.pollCreation(ctx, s)
	}
	if s.BeingDeleted() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so no portal cluster is created")
	}
	request, o := r.createRequest(ctx, s)
	if !o.IsDone() {
		return o
	}
	if o := r.Ownership.HoldRestored(ctx, &s.Pass); !o.IsDone() {
		return o
	}
	if o := s.Identity.CheckPlacement(request.ZoneID, request.VPCID); !o.IsDone() {
		return o // the PortalCluster reports this too, but users can change its status
	}
	if o := s.manageable(request.Size); !o.IsDone() {
		return o
	}
	if err := r.ensureName(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	return r.create(ctx, s, request)
}

// create sends the request for the portal cluster.
func (r *Reconciler) create(ctx context.Context, s *scope, request cloud.CreateClusterRequest) outcome.Outcome {
	request.Name = s.ControlPlane.Spec.ClusterName
	op := operation.New(operation.Create, request.Name)
	op.Attempt, op.Nodes, op.Record = fingerprint(request, s.Identity.Version), request.Size, s.recordOf(request)
	o, refused := s.Runner().Refused(op)
	if !refused {
		if o = s.checkName(ctx, op); !o.IsDone() {
			return s.Runner().Refuse(op, o)
		}
		var err error
		o, err = s.Runner().Start(ctx, op, func(ctx context.Context) (cloud.Created, error) {
			job, err := s.Identity.Portal.CreateCluster(ctx, request)
			return cloud.Created{Job: job}, err
		})
		if refusesVersion(err) {
			r.refuseVersion(s, request.KubernetesVersionID)
		}
	}
	if request.Size < s.Record.MinWorkers {
		return outcome.RetryAfter(0) // the next request has one worker
	}
	return operation.Progress(s.Op(), o, infrav1.CreatingReason)
}

// recordOf returns the record of the cluster that the request asks for.
func (s *scope) recordOf(request cloud.CreateClusterRequest) *operation.Record {
	return &operation.Record{
		UID:            s.ControlPlane.UID,
		Name:           s.Record.Name,
		Size:           request.Size,
		MinWorkers:     s.Record.MinWorkers,
		Version:        s.ControlPlane.Spec.Version,
		Workers:        &infrav1.WorkerParameters{ServiceOfferingID: request.ServiceOfferingID, SSHKeyPair: request.SSHKeyPair},
		NetworkID:      request.NetworkID,
		VPCID:          request.VPCID,
		AbandonedNames: s.Record.AbandonedNames,
	}
}

// checkName records whose cluster the creation makes. A name that a person chose must not be taken, if the portal supports the
// lookup (specification, Limits 4: look the resource up first). A generated name was never used before.
func (s *scope) checkName(ctx context.Context, op *operation.Operation) outcome.Outcome {
	var err error
	if op.Record.UserID, err = s.Identity.Portal.UserID(ctx); err != nil {
		return outcome.FromPortalError(err)
	}
	if s.Record.Generated(op.Target) {
		return outcome.Outcome{}
	}
	found, err := s.Identity.Portal.FindClusters(ctx, op.Target)
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
func (r *Reconciler) pollCreation(ctx context.Context, s *scope) outcome.Outcome {
	o := s.Runner().Poll(ctx)
	if o.IsDone() && s.ControlPlane.Spec.ClusterID != "" {
		return r.Ownership.Claim(ctx, &s.Pass)
	}
	return operation.Progress(s.Op(), o, infrav1.CreatingReason)
}

// fingerprint identifies the content of the request except the name, which changes after a failure.
func fingerprint(request cloud.CreateClusterRequest, identity string) string {
	request.Name = ""
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%+v %s", request, identity)
	return strconv.FormatUint(hash.Sum64(), 36)
}

// settleTime is how long the creation waits for the MachineDeployments of one manifest to arrive, so that the first size is their
// sum.
const settleTime = 3 * time.Second

// createRequest collects the parameters of the portal cluster, except its name, or returns an outcome with what is missing.
func (r *Reconciler) createRequest(ctx context.Context, s *scope) (cloud.CreateClusterRequest, outcome.Outcome) {
	none := cloud.CreateClusterRequest{}
	s.desired = s.desiredBy(s.members)
	if o := s.awaitTopology(time.Now()); !o.IsDone() {
		return none, o
	}
	parameters, o := r.workerParameters(ctx, s)
	if !o.IsDone() {
		return none, o
	}
	if wait := settleTime - time.Since(s.desired.youngest); wait > 0 {
		return none, outcome.WaitFor(min(wait, settleTime), infrav1.WaitingForObjectReason, "waiting a few seconds for all MachineDeployments to be created")
	}
	version, o := r.offered(ctx, s, s.ControlPlane.Spec.Version)
	if !o.IsDone() {
		return none, o
	}
	return cloud.CreateClusterRequest{
		Description:         s.ControlPlane.Spec.Description,
		ZoneID:              s.PortalCluster.Spec.ZoneID,
		KubernetesVersionID: version.ID,
		ServiceOfferingID:   parameters.ServiceOfferingID,
		SSHKeyPair:          parameters.SSHKeyPair,
		Size:                s.desired.firstSize(),
		ControlNodes:        int(ptr.Deref(s.ControlPlane.Spec.Replicas, 1)),
		NetworkID:           s.PortalCluster.Status.NetworkID,
		VPCID:               s.PortalCluster.Status.VPCID,
	}, outcome.Outcome{}
}

// ensureName generates the portal cluster's name again if it was removed from spec before the portal was first asked.
func (r *Reconciler) ensureName(ctx context.Context, s *scope) error {
	if s.ControlPlane.Spec.ClusterName != "" {
		return nil
	}
	return s.Change(ctx, func(next *operation.State) { ownership.NameCluster(&s.Pass, next) })
}
