// SPDX-License-Identifier: Apache-2.0

// Package pass holds what every step of a pass over a PortalControlPlane reads: its objects, the identity that calls the portal, and
// the State that is stored. A step changes the State in two ways only: by a request to the portal (Start, Runner), or by Change.
//
// It also answers the question that several steps ask: does the portal have the cluster (existence.go)?
package pass

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// Pass is one pass over one PortalControlPlane. Load sets its fields. Later, only the State and Gone change.
type Pass struct {
	ControlPlane  *infrav1.PortalControlPlane
	Cluster       *clusterv1.Cluster     // nil if gone, or not linked yet
	PortalCluster *infrav1.PortalCluster // nil if gone, or not linked yet

	Identity identity.Identity
	// Infrastructure is done if the portal may be called: PortalCluster ready, identity usable.
	Infrastructure outcome.Outcome

	operation.State // the record and the last operation, as they are stored

	// Gone is not done if the portal does not know the cluster. ReportGone sets it.
	Gone outcome.Outcome

	Tools
}

// Tools are the means by which a pass changes and reports things.
type Tools struct {
	Writer   persist.Writer
	Calls    *operation.Calls // creations under way
	Recorder events.EventRecorder
	Backoff  *outcome.Backoff        // of this portal cluster
	Progress *operation.LastProgress // of its operation in flight
}

// Load reads the PortalCluster and the identity. A missing object is not an error: the steps report what they wait for.
func (p *Pass) Load(ctx context.Context, reader client.Reader, identities *identity.Resolver) (err error) {
	if p.PortalCluster, err = PortalClusterOf(ctx, reader, p.Cluster, p.ControlPlane); err != nil {
		return err
	}
	p.Infrastructure = p.loadIdentity(ctx, identities)
	return nil
}

const portalClusterKind = "PortalCluster"

// PortalClusterOf finds the PortalCluster of a control plane: the one that the Cluster refers to, or one with the Cluster's name in its
// label.
func PortalClusterOf(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster, cp *infrav1.PortalControlPlane) (*infrav1.PortalCluster, error) {
	if cluster != nil && cluster.Spec.InfrastructureRef.Kind == portalClusterKind {
		found := &infrav1.PortalCluster{}
		key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}
		err := reader.Get(ctx, key, found)
		if err == nil || !apierrors.IsNotFound(err) {
			return found, err
		}
	}
	name := cp.Labels[clusterv1.ClusterNameLabel]
	all := &infrav1.PortalClusterList{}
	if err := reader.List(ctx, all, client.InNamespace(cp.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		return nil, err
	}
	if name == "" || len(all.Items) == 0 {
		return nil, nil // a missing object is not an error
	}
	return &all.Items[0], nil
}

// whyNoPortalCluster says what to do if the Cluster has no PortalCluster.
func (p *Pass) whyNoPortalCluster() string {
	ref := clusterv1.ContractVersionedObjectReference{}
	if p.Cluster != nil {
		ref = p.Cluster.Spec.InfrastructureRef
	}
	switch ref.Kind {
	case "":
		return "the Cluster has no PortalCluster. Name it in spec.infrastructureRef of the Cluster"
	case portalClusterKind:
		return fmt.Sprintf("PortalCluster %s, which the Cluster names in spec.infrastructureRef, does not exist. Create it, or correct the name", ref.Name)
	}
	return fmt.Sprintf("the Cluster names a %s in spec.infrastructureRef. Name a PortalCluster", ref.Kind)
}

// loadIdentity reports whether the portal may be called, and loads the identity.
func (p *Pass) loadIdentity(ctx context.Context, identities *identity.Resolver) outcome.Outcome {
	if p.PortalCluster == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "%s", p.whyNoPortalCluster())
	}
	deleting := !p.ControlPlane.DeletionTimestamp.IsZero() // a deletion only needs the identity
	ready := conditions.IsTrue(p.PortalCluster, infrav1.ReadyCondition) && p.PortalCluster.Status.ObservedGeneration == p.PortalCluster.Generation
	if !deleting && !p.Provisioned() && !ready {
		return outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "waiting for PortalCluster %s to be ready: see its conditions", p.PortalCluster.Name)
	}
	var problem outcome.Outcome
	if p.Identity, problem = identities.Resolve(ctx, p.PortalCluster.Namespace, p.PortalCluster.Spec.IdentityRef); !problem.IsDone() {
		return problem
	}
	return p.CheckPortal()
}

// CheckPortal is done unless the identity names another portal than the portal cluster's. At that portal, the cluster's id may belong
// to a cluster of another account. No answer of a portal can prove that it is the same portal, because all of its former answers came from
// a server that the owner of the identity chose. So a person with the right to adopt decides.
func (p *Pass) CheckPortal() outcome.Outcome {
	home, now := p.Record.Portal, p.Identity.Portal.Address()
	if home == "" || home == now || infrav1.DecisionTrust.MadeOn(p.ControlPlane, now) {
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.AccountChangedReason, "the portal cluster belongs to portal %s, but the identity names %s. "+
		"Correct baseURL of the identity. If the same portal has a new URL: %s", home, now, operation.Command(p.ControlPlane, infrav1.DecisionTrust, now))
}

// Provisioned reports whether the PortalCluster is provisioned. That needs the kubeconfig, so until then its condition Ready
// counts.
func (p *Pass) Provisioned() bool {
	return p.PortalCluster != nil && ptr.Deref(p.PortalCluster.Status.Initialization.Provisioned, false)
}

// BeingDeleted reports whether the Cluster or the control plane is being deleted. Nothing is scaled then.
func (p *Pass) BeingDeleted() bool {
	return !p.ControlPlane.DeletionTimestamp.IsZero() || p.Cluster == nil || !p.Cluster.DeletionTimestamp.IsZero()
}

// Owns reports whether the object may change the portal cluster that spec.clusterID names: it has created or claimed it.
func (p *Pass) Owns() bool {
	return p.ControlPlane.Spec.ClusterID != "" && p.Record.UID == p.ControlPlane.UID && p.Record.ClusterID == p.ControlPlane.Spec.ClusterID
}

// Deleted reports whether the portal has deleted the cluster at the provider's request.
func (p *Pass) Deleted() bool {
	return p.Last.Is(operation.Delete) && p.Last.Result == operation.Succeeded && p.Last.Target == p.ControlPlane.Spec.ClusterID
}

// DeletionPolicy returns what happens to the portal cluster when the object is deleted.
func (p *Pass) DeletionPolicy() infrav1.DeletionPolicy {
	if p.Record.TakenOver {
		return cmp.Or(p.ControlPlane.Spec.DeletionPolicy, infrav1.DeletionPolicyRetain)
	}
	return cmp.Or(p.ControlPlane.Spec.DeletionPolicy, infrav1.DeletionPolicyDelete)
}

// Endpoint is the API server of the workload cluster.
func (p *Pass) Endpoint() string { return p.ControlPlane.Spec.ControlPlaneEndpoint.String() }

// EndpointChosen reports whether the user chose the endpoint in spec. The provider chose it if it is the server of the kubeconfig
// that was used last.
func (p *Pass) EndpointChosen() bool {
	inSpec := p.ControlPlane.Spec.ControlPlaneEndpoint
	return inSpec.IsValid() && inSpec != p.Record.Endpoint
}

// Change writes one change of metadata, spec and the stored state with an optimistic lock.
func (p *Pass) Change(ctx context.Context, change func(next *operation.State)) error {
	next := p.State
	err := p.Writer.Change(ctx, p.ControlPlane, func() {
		change(&next)
		next.Put(p.ControlPlane)
	})
	if err != nil {
		return fmt.Errorf("write PortalControlPlane: %w", err)
	}
	p.State = next
	return nil
}

// Runner runs the operations of this portal cluster.
func (p *Pass) Runner() operation.Runner {
	cp := p.ControlPlane
	m := operation.Runner{
		Object: cp, State: &p.State, Writer: p.Writer, Calls: p.Calls, Backoff: p.Backoff, Progress: p.Progress, Recorder: p.Recorder, Observe: metrics.JobEnded,
		Flow: client.ObjectKeyFromObject(cp).String(), Cluster: cmp.Or(cp.Spec.ClusterID, cp.Spec.ClusterName),
	}
	if p.Infrastructure.IsDone() {
		m.Portal, m.CreationsHeld = p.Identity.Portal, p.Identity.CreationsHeld
	}
	return m
}

// Start starts an operation that names the cluster by its id. The same target under the same identity is the same attempt. A
// value that op.Attempt already has is part of it. The error is the portal's, if the request was sent and not accepted.
func (p *Pass) Start(ctx context.Context, op *operation.Operation, send func(ctx context.Context) (cloud.Job, error)) (outcome.Outcome, error) {
	op.Attempt = p.attempt(op)
	o, err := p.Runner().Start(ctx, op, func(ctx context.Context) (cloud.Created, error) {
		job, err := send(ctx)
		return cloud.Created{Job: job}, err
	})
	if cloud.IsNotFound(err) && op.Type != operation.Delete {
		o = p.refusedUnknown(ctx, o)
	}
	return o, err
}

// Refused returns the last refusal of the operation, as long as Start would only return it again.
func (p *Pass) Refused(op *operation.Operation) (outcome.Outcome, bool) {
	again := *op
	again.Attempt = p.attempt(op)
	return p.Runner().Refused(&again)
}

func (p *Pass) attempt(op *operation.Operation) string {
	target := op.Target
	if op.Is(operation.Scale) {
		target = strconv.Itoa(operation.AttemptSize(op.Size()))
	}
	return op.Attempt + target + " " + p.Identity.Version
}
