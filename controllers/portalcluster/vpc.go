// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// vpcFresh is how long a VPC that was found counts for other PortalClusters of the account, so that PortalClusters that are created
// together look it up once. It is short because a person may replace the VPC by another one of that name.
const vpcFresh = time.Minute

// reconcileVPC resolves the VPC's name. One that was found is not looked up again, unless spec may name another one since then. The VPC of a
// portal cluster that exists is the one in its record: the portal may list it under another name today, or list another one under its name.
// If the record has none, because the cluster was adopted, the VPC need not be found: it is used only to place a new cluster.
func (r *Reconciler) reconcileVPC(ctx context.Context, s *scope) outcome.Outcome {
	vpc := s.portalCluster.Spec.VPC
	switch {
	case s.created.ZoneID != "":
		s.vpcID = s.created.VPCID
		return r.abandonVPC(ctx, s)
	case vpc.ID == "" && s.portalCluster.Status.VPCID != "" && s.upToDate():
		s.vpcID = s.portalCluster.Status.VPCID
		return outcome.Outcome{}
	case ptr.Deref(vpc.Create, false) && !s.exists:
		return r.ensureVPC(ctx, s, vpc.Name)
	}
	if o := r.abandonVPC(ctx, s); !o.IsDone() {
		return o
	}
	if vpc.ID != "" {
		s.vpcID = vpc.ID
		return outcome.Outcome{}
	}
	o := r.lookUp(ctx, s, vpc.Name, func(missing outcome.Outcome) outcome.Outcome { return missing })
	if s.exists && o.Reason == infrav1.RefusedReason {
		return outcome.Outcome{}
	}
	return o
}

// abandonVPC ends the creation of a VPC for which spec does not ask any more. Otherwise a network could not be created.
func (r *Reconciler) abandonVPC(ctx context.Context, s *scope) outcome.Outcome {
	state, err := operation.Load(s.portalCluster)
	if err != nil {
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	}
	if !state.Op().Is(operation.CreateVPC) {
		return outcome.Outcome{}
	}
	return r.abandon(ctx, s, &state)
}

// upToDate reports whether the ids in status belong to spec, which a user may have corrected since then. While the portal cluster may exist, they
// are those of the cluster. If its creation fails, they are found again, because a correction during the creation had no effect.
func (s *scope) upToDate() bool {
	return s.placed || !s.released && s.portalCluster.Status.ObservedGeneration == s.portalCluster.Generation
}

// lookUp finds the VPC, with the backoff of refused requests. If the account has none of that name, whenMissing decides.
func (r *Reconciler) lookUp(ctx context.Context, s *scope, name string, whenMissing func(outcome.Outcome) outcome.Outcome) outcome.Outcome {
	return r.memory(s).backoff.Do("vpc", name+" "+s.identity.Version, func() outcome.Outcome {
		found, o := r.findVPC(ctx, s.identity.Portal, name)
		if found.missing {
			return whenMissing(o)
		}
		s.vpcID = found.id
		return o
	})
}

// vpcAnswer is what the portal answered to the search for a VPC.
type vpcAnswer struct {
	id      string
	missing bool // the account has no VPC of that name
}

// findVPC asks the portal for the id of the one VPC of that name.
func (r *Reconciler) findVPC(ctx context.Context, portal *cloud.Client, name string) (vpcAnswer, outcome.Outcome) {
	return outcome.Ask(r.Answers, outcome.Question{Portal: portal, What: "VPC " + name}, vpcFresh, func() (vpcAnswer, outcome.Outcome) {
		found, err := portal.VPCs(ctx, name)
		switch {
		case err != nil:
			return vpcAnswer{}, outcome.FromPortalError(err).Prefix("find VPC %q", name)
		case len(found) != 1: // a person may correct that at any time
			return vpcAnswer{missing: len(found) == 0}, outcome.StallFor(0, infrav1.RefusedReason,
				"%d VPCs of the portal account are named %q, but exactly one must be. Create it, set spec.vpc.create, or correct spec.vpc", len(found), name)
		}
		return vpcAnswer{id: found[0].ID}, outcome.Outcome{}
	})
}

// ensureVPC finds the VPC, or creates it. If the answer to its creation was lost, the VPC is looked for by its name until a job would count as
// stuck. Only then is it asked for again.
func (r *Reconciler) ensureVPC(ctx context.Context, s *scope, name string) outcome.Outcome {
	state, err := operation.Load(s.portalCluster)
	if err != nil {
		return outcome.StallFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	}
	runner, op := r.runner(s, &state), newCreation(s, operation.CreateVPC, name)
	var polled outcome.Outcome
	if state.Op().Is(operation.CreateVPC) {
		if polled = runner.Poll(ctx); !polled.IsDone() && !state.Op().Lost() {
			return operation.Progress(state.Op(), polled, infrav1.CreatingReason)
		}
	} else if refused, found := runner.Refused(op); found {
		return refused
	}
	create := false
	o := r.lookUp(ctx, s, name, func(missing outcome.Outcome) outcome.Outcome {
		if state.Last.InFlight() && !state.Last.Is(operation.CreateVPC) {
			return missing
		}
		if state.Last.Lost() && runner.Progress.StuckIn(state.Last) > 0 {
			return polled
		}
		if o := r.mayCreateVPC(ctx, s, state.Last, name); !o.IsDone() {
			return o
		}
		create = true
		return outcome.RetryAfter(0) // which is not remembered
	})
	switch {
	case create:
		o, _ = runner.Start(ctx, op, func(ctx context.Context) (cloud.Created, error) {
			job, err := s.identity.Portal.CreateVPC(ctx, cloud.CreateVPCRequest{Name: name})
			return cloud.Created{Job: job}, err
		})
		return operation.Progress(state.Op(), o, infrav1.CreatingReason)
	case o.IsDone() && state.Op().Is(operation.CreateVPC):
		return runner.Finish(ctx, operation.Succeeded, s.vpcID)
	}
	return o
}

// mayCreateVPC is done if this PortalCluster may create the VPC now.
func (r *Reconciler) mayCreateVPC(ctx context.Context, s *scope, last *operation.Operation, name string) outcome.Outcome {
	if last.Is(operation.CreateVPC) && last.Target == name && last.Result == operation.Succeeded {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "the portal has created VPC %q, but does not list it. If this lasts, set spec.vpc.id to its id", name)
	}
	if !r.isFirst(ctx, s, name) {
		return outcome.WaitFor(0, infrav1.CreatingReason, "another PortalCluster creates VPC %q", name)
	}
	return outcome.Outcome{}
}

// isFirst reports whether no other PortalCluster with this identity creates the VPC. Those of one manifest are reconciled at the same time,
// and would create one VPC each.
func (r *Reconciler) isFirst(ctx context.Context, s *scope, name string) bool {
	me := client.ObjectKeyFromObject(s.portalCluster)
	turn := outcome.Question{Portal: s.identity.Portal, What: "the PortalCluster that creates VPC " + name}
	first, _ := outcome.Ask(r.Answers, turn, vpcFresh, func() (client.ObjectKey, outcome.Outcome) { return me, outcome.Outcome{} })
	all := &infrav1.PortalClusterList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil || first != me {
		return false
	}
	identity := s.portalCluster.Spec.IdentityRef
	return !slices.ContainsFunc(all.Items, func(other infrav1.PortalCluster) bool {
		if other.Spec.IdentityRef != identity || other.Namespace != me.Namespace && identity.Kind != infrav1.PortalIdentityShared {
			return false
		}
		state, err := operation.Load(&other)
		return err == nil && other.UID != s.portalCluster.UID && state.Op().Is(operation.CreateVPC) && state.Op().Target == name
	})
}
