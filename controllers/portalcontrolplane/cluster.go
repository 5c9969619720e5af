// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileCluster makes sure that the portal cluster exists. It is created once, or adopted by its id.
func (r *Reconciler) reconcileCluster(ctx context.Context, s *scope) outcome.Outcome {
	if s.controlPlane.Spec.ClusterID != "" {
		if o := r.claim(ctx, s); !o.IsDone() {
			return o
		}
		if o := r.recordInIdentity(ctx, s); !o.IsDone() {
			return o
		}
		return r.reconcileExistence(ctx, s)
	}
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	if s.op != nil { // an unfinished creation needs none of the inputs
		return r.pollCreation(ctx, s)
	}
	if s.beingDeleted() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so no portal cluster is created")
	}
	request, o := r.createRequest(ctx, s)
	if !o.IsDone() {
		return o
	}
	if o := r.lookBeforeCreating(ctx, s); !o.IsDone() {
		return o
	}
	if o := s.identity.CheckPlacement(request.ZoneID, request.VPCID); !o.IsDone() {
		return o // the PortalCluster reports this too, but users can change its status
	}
	if o := s.manageable(request.Size); !o.IsDone() {
		return o
	}
	if err := r.ensureName(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	request.Name = s.controlPlane.Spec.ClusterName
	op := operation.New(operation.Create, request.Name)
	q := newCreation(s, request)
	op.Attempt, op.Nodes, op.Record = fingerprint(request, s.identity.Version), request.Size, q.record
	o = s.reloadAfter(r.runner(s).Start(ctx, op, q))
	if q.versionRefused {
		r.refuseVersion(s, request.KubernetesVersionID)
	}
	if request.Size < s.record.MinWorkers {
		return outcome.RetryAfter(0) // the next request has one worker
	}
	return operation.Progress(s.op, o, infrav1.CreatingReason)
}

// pollCreation takes the creation in flight one step further.
func (r *Reconciler) pollCreation(ctx context.Context, s *scope) outcome.Outcome {
	o := s.reloadAfter(r.runner(s).Poll(ctx, s.creation()))
	if o.IsDone() && s.controlPlane.Spec.ClusterID != "" {
		return r.claim(ctx, s)
	}
	return operation.Progress(s.op, o, infrav1.CreatingReason)
}

// fingerprint identifies the content of the request except the name, which changes after a failure.
func fingerprint(request cloud.CreateClusterRequest, identity string) string {
	request.Name = ""
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%+v %s", request, identity)
	return strconv.FormatUint(hash.Sum64(), 36)
}

// creation is a request for a cluster.
type creation struct {
	s       *scope
	request cloud.CreateClusterRequest
	record  *operation.Record // of the cluster that the request asks for
	// generated reports whether the provider generated the name, which was then never used before. A cluster with a name that a
	// person chose may belong to another user.
	generated      bool
	nextName       string
	versionRefused bool // the portal refused the id of the version
}

func newCreation(s *scope, request cloud.CreateClusterRequest) *creation {
	cp := s.controlPlane
	return &creation{
		s: s, request: request, generated: s.record.Name != "" && s.record.Name == request.Name, nextName: nameAfter(cp.Name, request.Name),
		record: &operation.Record{
			UID:            cp.UID,
			Name:           s.record.Name,
			Size:           request.Size,
			MinWorkers:     s.record.MinWorkers,
			Version:        cp.Spec.Version,
			Workers:        &infrav1.WorkerParameters{ServiceOfferingID: request.ServiceOfferingID, SSHKeyPair: request.SSHKeyPair},
			NetworkID:      request.NetworkID,
			VPCID:          request.VPCID,
			AbandonedNames: s.record.AbandonedNames,
		},
	}
}

// creation returns the creation in flight.
func (s *scope) creation() *creation {
	return newCreation(s, cloud.CreateClusterRequest{Name: s.op.Target})
}

// Prepare implements operation.Preparer. A name that a person chose must not be taken, if the portal supports the lookup
// (specification, Limits 4: look the resource up first).
func (q *creation) Prepare(ctx context.Context) outcome.Outcome {
	var err error
	if q.record.UserID, err = q.s.identity.Portal.UserID(ctx); err != nil {
		return outcome.FromPortalError(err)
	}
	if q.generated {
		return outcome.Outcome{}
	}
	found, err := q.s.identity.Portal.FindClusters(ctx, q.request.Name)
	switch {
	case err != nil && !cloud.IsUnsupported(err):
		return outcome.FromPortalError(err)
	case len(found) > 0:
		return outcome.StallFor(0, infrav1.RefusedReason, "the portal already has a cluster named %q (id %s). Set spec.clusterID to its id, "+
			"or choose another spec.clusterName", q.request.Name, found[0].ID)
	}
	return outcome.Outcome{}
}

// Send implements operation.Request.
func (q *creation) Send(ctx context.Context) (cloud.Created, error) {
	job, err := q.s.identity.Portal.CreateCluster(ctx, q.request)
	q.versionRefused = refusesVersion(err)
	return cloud.Created{Job: job}, err
}

// Find implements operation.Finder. A cluster with a name that a person chose proves nothing, and if several are found, it is
// unknown which one is ours.
func (q *creation) Find(ctx context.Context) (string, error) {
	if !q.generated {
		return "", nil
	}
	found, err := q.s.identity.Portal.FindClusters(ctx, q.request.Name)
	if err != nil || len(found) != 1 {
		return "", err
	}
	return found[0].ID, nil
}

// UpdateObject implements operation.Request. After a failed job, a record may remain under the name, so a generated name is
// replaced. A name that the user chose, before the request or since, is sent again. If the portal reports that it is taken, the
// user has to choose another one.
func (q *creation) UpdateObject(op *operation.Operation, id string, cause error) {
	cp, record := q.s.controlPlane, q.s.record
	switch {
	case op.Result == operation.Refused && insistsOnWorkers(q.request.Size, cause):
		record.MinWorkers = 1
		operation.PutRecord(cp, record)
	case op.Result == operation.Succeeded:
		if record.Workers == nil && op.Record != nil { // the answer that accepted the request was lost
			record = op.Record
		}
		cp.Spec.ClusterID, record.ClusterID, record.Portal = id, id, op.Portal
		operation.PutRecord(cp, record)
	case op.Result == operation.Failed:
		names := slices.Clone(record.AbandonedNames)
		if !slices.Contains(names, op.Target) {
			names = append(names, op.Target)
		}
		next := &operation.Record{UID: record.UID, Size: operation.SizeUnknown, MinWorkers: record.MinWorkers, AbandonedNames: names}
		if q.generated && (cp.Spec.ClusterName == q.request.Name || cp.Spec.ClusterName == q.nextName) {
			next.Name, cp.Spec.ClusterName = q.nextName, q.nextName
		}
		operation.PutRecord(cp, next)
	case op.InFlight() && !op.Lost():
		op.Record.Portal = op.Portal
		operation.PutRecord(cp, op.Record)
	}
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
	version, o := r.offered(ctx, s, s.controlPlane.Spec.Version)
	if !o.IsDone() {
		return none, o
	}
	return cloud.CreateClusterRequest{
		Description:         s.controlPlane.Spec.Description,
		ZoneID:              s.portalCluster.Spec.ZoneID,
		KubernetesVersionID: version.ID,
		ServiceOfferingID:   parameters.ServiceOfferingID,
		SSHKeyPair:          parameters.SSHKeyPair,
		Size:                s.desired.firstSize(),
		ControlNodes:        int(ptr.Deref(s.controlPlane.Spec.Replicas, 1)),
		NetworkID:           s.portalCluster.Status.NetworkID,
		VPCID:               s.portalCluster.Status.VPCID,
	}, outcome.Outcome{}
}

// ensureName generates the portal cluster's name again if it was removed from spec before the portal was first asked.
func (r *Reconciler) ensureName(ctx context.Context, s *scope) error {
	if s.controlPlane.Spec.ClusterName != "" {
		return nil
	}
	return r.change(ctx, s, s.nameCluster)
}

// generateName returns a name that a person can recognize at the portal, and that was never used before.
func generateName(base string) string {
	return stem(base) + rand.String(generatedLength)
}

const (
	longestName     = 63
	generatedLength = 5
	generatedFrom   = "bcdfghjklmnpqrstvwxz2456789" // what rand.String draws from: no words come of it
)

// stem is the part of a generated name that comes from the PortalControlPlane's name.
func stem(base string) string {
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base)
	return strings.Trim(base[:min(len(base), longestName-generatedLength-1)], "-") + "-"
}

// nameAfter returns the generated name that replaces another one. It is derived from that one, so that a backup with an earlier
// name leads to the portal cluster.
func nameAfter(base, name string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	n, random := hash.Sum64(), make([]byte, generatedLength)
	for i := range random {
		random[i] = generatedFrom[n%uint64(len(generatedFrom))]
		n /= uint64(len(generatedFrom))
	}
	return stem(base) + string(random)
}

// isGenerated reports whether the provider could have generated the name.
func isGenerated(base, name string) bool {
	random, ours := strings.CutPrefix(name, stem(base))
	return ours && len(random) == generatedLength && strings.Trim(random, generatedFrom) == ""
}
