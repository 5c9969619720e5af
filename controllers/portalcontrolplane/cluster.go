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
	"github.com/capportal/cluster-api-provider-portal/controllers/creation"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileCluster sees to it that the portal cluster exists: created once, or adopted by its id.
func (r *Reconciler) reconcileCluster(ctx context.Context, s *scope) outcome.Outcome {
	if s.controlPlane.Spec.ClusterID != "" {
		return r.adopt(ctx, s)
	}
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	if s.retiring() && s.op == nil {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted; nothing is created")
	}
	if s.op != nil { // an unfinished creation needs none of the inputs
		return r.create(ctx, s, cloud.CreateClusterRequest{Name: s.op.Target}, "")
	}
	request, o := r.createRequest(ctx, s)
	if !o.IsDone() {
		return o
	}
	return r.create(ctx, s, request, fingerprint(request, s.identity.Version))
}

// fingerprint stands for all that goes into the request but the name, which changes after a failure.
func fingerprint(request cloud.CreateClusterRequest, identity string) string {
	request.Name = ""
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%+v %s", request, identity)
	return strconv.FormatUint(hash.Sum64(), 36)
}

// adopt forgets an unfinished creation: spec.clusterID settles it.
func (r *Reconciler) adopt(ctx context.Context, s *scope) outcome.Outcome {
	if s.op != nil && s.op.Type == journal.Create {
		if err := r.change(ctx, s, func() { journal.Put(s.controlPlane, nil) }); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.DoneBecause(infrav1.ProvisionedReason, "")
}

// create takes the creation one step further; package creation tells the states.
func (r *Reconciler) create(ctx context.Context, s *scope, request cloud.CreateClusterRequest, attempt string) outcome.Outcome {
	portal, cp := s.identity.Portal, s.controlPlane
	var userID string
	minted := isMinted(cp.Name, request.Name)
	var refusal error
	started := false
	abandoned, next := append(slices.Clone(s.record.AbandonedNames), request.Name), mintName(cp.Name)
	o := r.machinery().Step(ctx, creation.Creation{
		Object: cp, Portal: portal, Type: journal.Create, Noun: "cluster", Target: request.Name,
		Flow: s.flow(), Attempt: attempt, Reason: infrav1.CreatingReason,
		WayOut: "set spec.clusterID to its id",
		Call: func(ctx context.Context) (cloud.Created, error) {
			job, err := portal.CreateCluster(ctx, request)
			refusal = err
			return cloud.Created{Job: job}, err
		},
		Accepted: func() {
			journal.PutRecord(cp, r.newRecord(s, request, userID))
			started = true
		},
		Prepare: func(ctx context.Context) (err error) {
			userID, err = portal.UserID(ctx)
			return err
		},
		Taken:    func(ctx context.Context) (string, error) { return findTaken(ctx, portal, request.Name, minted) },
		Find:     func(ctx context.Context) (string, error) { return findMinted(ctx, portal, request.Name, minted) },
		Stranger: func(ctx context.Context) bool { return r.stranger(ctx, s) },
		Created:  func(id string) { cp.Spec.ClusterID = id },
		Failed: func() {
			journal.PutRecord(cp, &journal.Record{Size: journal.SizeUnknown, AbandonedNames: abandoned, Floor: s.record.Floor})
			cp.Spec.ClusterName = next
		},
	})
	if err := s.loadJournal(); err != nil {
		return outcome.Fail(err)
	}
	if o.IsDone() {
		r.event(s, infrav1.EventOperationSucceeded, "Create", "the portal created cluster %s (id %s)", request.Name, cp.Spec.ClusterID)
		return outcome.DoneBecause(infrav1.ProvisionedReason, "")
	}
	if started && s.op != nil && s.op.JobID != "" {
		r.event(s, infrav1.EventOperationStarted, "Create", "the portal accepted to create cluster %s (job %s)", request.Name, s.op.JobID)
	}
	if insistsOnWorkers(request.Size, refusal) {
		return r.insist(ctx, s)
	}
	return o
}

// insist remembers that the portal makes no cluster without workers: the next request has one.
func (r *Reconciler) insist(ctx context.Context, s *scope) outcome.Outcome {
	err := r.change(ctx, s, func() {
		s.record.Floor = 1
		journal.PutRecord(s.controlPlane, s.record)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Come(0)
}

func (r *Reconciler) newRecord(s *scope, request cloud.CreateClusterRequest, userID string) *journal.Record {
	return &journal.Record{
		UserID:         userID,
		Size:           request.Size,
		Version:        s.controlPlane.Spec.Version,
		Workers:        &infrav1.WorkerParameters{ServiceOfferingID: request.ServiceOfferingID, SSHKeyPair: request.SSHKeyPair},
		NetworkID:      request.NetworkID,
		VPCID:          request.VPCID,
		AbandonedNames: s.record.AbandonedNames,
		Floor:          s.record.Floor,
	}
}

// findTaken asks the portal, in case this portal answers that, for a cluster of a name that a person chose: it may be
// somebody else's. A name that we have minted was never used before.
func findTaken(ctx context.Context, portal *cloud.Client, name string, minted bool) (string, error) {
	if minted {
		return "", nil
	}
	found, err := portal.FindClusters(ctx, name)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].ID, nil
}

// findMinted asks after a call that was cut off, for a cluster of a name that we have minted. What carries a name that a
// person chose proves nothing, and of several nobody knows which is ours.
func findMinted(ctx context.Context, portal *cloud.Client, name string, minted bool) (string, error) {
	if !minted {
		return "", nil
	}
	found, err := portal.FindClusters(ctx, name)
	if err != nil || len(found) != 1 {
		return "", err
	}
	return found[0].ID, nil
}

// settleTime is left for the MachineDeployments of one manifest to arrive, so that the first size is their sum.
const settleTime = 3 * time.Second

// createRequest collects what the portal cluster is created with, or says what is missing.
func (r *Reconciler) createRequest(ctx context.Context, s *scope) (cloud.CreateClusterRequest, outcome.Outcome) {
	none := cloud.CreateClusterRequest{}
	var err error
	if s.desired, err = r.readDesired(ctx, r.Client, s); err != nil {
		return none, outcome.Fail(err)
	}
	if o := s.awaitTopology(time.Now()); !o.IsDone() {
		return none, o
	}
	parameters, o := r.workerParameters(ctx, s)
	if !o.IsDone() {
		return none, o
	}
	if wait := settleTime - time.Since(s.desired.youngest); wait > 0 {
		return none, outcome.WaitFor(min(wait, settleTime), infrav1.WaitingForWorkersReason, "MachineDeployments are still being created")
	}
	version, o := r.offered(ctx, s, s.controlPlane.Spec.Version)
	if !o.IsDone() {
		return none, o
	}
	if err := r.ensureName(ctx, s); err != nil {
		return none, outcome.Fail(err)
	}
	return cloud.CreateClusterRequest{
		Name:                s.controlPlane.Spec.ClusterName,
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

// ensureName mints the portal cluster's name into spec, before the portal is first asked.
func (r *Reconciler) ensureName(ctx context.Context, s *scope) error {
	if s.controlPlane.Spec.ClusterName != "" {
		return nil
	}
	return r.change(ctx, s, func() { s.controlPlane.Spec.ClusterName = mintName(s.controlPlane.Name) })
}

// mintName makes a name that a person can find at the portal, and that was never used before.
func mintName(base string) string {
	return stem(base) + rand.String(mintedLength)
}

const (
	longestName  = 63
	mintedLength = 5
	mintedFrom   = "bcdfghjklmnpqrstvwxz2456789" // what rand.String draws from: no words come of it
)

// stem is the part of a minted name that tells whose it is.
func stem(base string) string {
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base)
	return strings.Trim(base[:min(len(base), longestName-mintedLength-1)], "-") + "-"
}

// isMinted tells whether the name is one of ours.
func isMinted(base, name string) bool {
	random, ours := strings.CutPrefix(name, stem(base))
	return ours && len(random) == mintedLength && strings.Trim(random, mintedFrom) == ""
}
