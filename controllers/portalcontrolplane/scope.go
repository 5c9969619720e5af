// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
)

// scope is one pass over one PortalControlPlane: the objects it has read, and the outcomes of its steps.
type scope struct {
	controlPlane  *infrav1.PortalControlPlane
	cluster       *clusterv1.Cluster     // nil if gone, or not linked yet
	portalCluster *infrav1.PortalCluster // nil if gone, or not linked yet

	identity identity.Identity
	// infrastructure is done if the portal may be called: PortalCluster ready, identity usable.
	infrastructure outcome.Outcome

	operation.State // the record and the last operation, as they are stored

	// access is how the API server reacts to the stored kubeconfig.
	access workload.Access
	// userManaged is the name of the kubeconfig Secret if it is user-managed.
	userManaged string

	workload Workload // the connection to the workload cluster, or nil

	// Of the workload cluster, once connected.
	serverVersion string // version of the API server
	nodes         []corev1.Node
	otherIDs      []string    // providerIDs of Nodes that are not workers
	nodeUIDs      []types.UID // of all Nodes
	controlNodes  int         // Nodes with a mark of control nodes
	unmarked      int         // Nodes without one
	bound         bool        // some PortalMachine holds a Node, or has held one

	clockBehind time.Duration // how far the clock of the API server is behind the manager's

	keepsPause bool // a MachinePool stays paused, because an upgrade is about to start

	members members // as the cache shows them at the start of the pass
	desired desired
	claimed []infrav1.PortalMachine
	checks  healthChecks    // conditions that the Cluster's MachineHealthChecks act on
	pinned  map[string]bool // Nodes with Pods that must not be evicted, if the cluster is autoscaled
	plan    claims.Plan
	drains  map[string]string // what the provider's own drains wait for, by Node

	outcomes map[string]outcome.Outcome
	// unreadable is the error of one of our annotations that was edited and cannot be read. Nothing is done then.
	unreadable error
}

// loadScope reads what every step needs. A missing object is not an error: the steps report what they wait for.
func (r *Reconciler) loadScope(ctx context.Context, controlPlane *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{controlPlane: controlPlane, cluster: cluster, outcomes: map[string]outcome.Outcome{}, drains: map[string]string{}}
	s.State, s.unreadable = operation.Load(controlPlane)
	if s.unreadable == nil {
		var err error
		if s.portalCluster, err = r.portalCluster(ctx, s); err != nil {
			return nil, err
		}
		s.infrastructure = r.loadIdentity(ctx, s)
	}
	return s, nil
}

// adopted reports whether the cluster was neither created nor scaled by the provider, and its Machines and nodes never matched.
// Its surplus nodes are not removed.
func (s *scope) adopted() bool {
	return s.Record.Workers == nil && s.Record.Size < 0 && !s.Last.Is(operation.Scale)
}

// portalCluster finds the PortalCluster: the one that the Cluster refers to, or one with the Cluster's name in its label.
func (r *Reconciler) portalCluster(ctx context.Context, s *scope) (*infrav1.PortalCluster, error) {
	if s.cluster != nil && s.cluster.Spec.InfrastructureRef.Kind == "PortalCluster" {
		found := &infrav1.PortalCluster{}
		key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
		err := r.Client.Get(ctx, key, found)
		if err == nil || !apierrors.IsNotFound(err) {
			return found, err
		}
	}
	name := s.controlPlane.Labels[clusterv1.ClusterNameLabel]
	all := &infrav1.PortalClusterList{}
	if err := r.Client.List(ctx, all, client.InNamespace(s.controlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		return nil, err
	}
	if name == "" || len(all.Items) == 0 {
		return nil, nil //nolint:nilnil // a missing object is not an error
	}
	return &all.Items[0], nil
}

// loadIdentity reports whether the portal may be called, and loads the identity.
func (r *Reconciler) loadIdentity(ctx context.Context, s *scope) outcome.Outcome {
	if s.portalCluster == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "the Cluster has no PortalCluster. Name it in spec.infrastructureRef of the Cluster")
	}
	deleting := !s.controlPlane.DeletionTimestamp.IsZero() // a deletion only needs the identity
	if !deleting && !s.provisioned() && !conditions.IsTrue(s.portalCluster, infrav1.ReadyCondition) {
		return outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "waiting for PortalCluster %s to be ready: see its conditions", s.portalCluster.Name)
	}
	resolve := r.Identities.Resolve
	if deleting {
		resolve = r.Identities.ResolveToDelete
	}
	var problem outcome.Outcome
	if s.identity, problem = resolve(ctx, s.portalCluster.Namespace, s.portalCluster.Spec.IdentityRef); !problem.IsDone() {
		return problem
	}
	if o := s.checkPortal(); !o.IsDone() {
		return o
	}
	return s.identity.MayDelete(s.controlPlane.Namespace, s.controlPlane.Spec.ClusterID)
}

// provisioned reports whether the PortalCluster is provisioned. That needs the kubeconfig, so until then its condition Ready
// counts.
func (s *scope) provisioned() bool {
	return s.portalCluster != nil && ptr.Deref(s.portalCluster.Status.Initialization.Provisioned, false)
}

// checkPortal is done unless the identity names another portal than the portal cluster's. At that portal, the cluster's id may belong
// to a cluster of another account.
func (s *scope) checkPortal() outcome.Outcome {
	home := s.Record.Portal
	if home == "" || home == s.identity.Portal.Address() {
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.AccountChangedReason, "the portal cluster belongs to portal %s, but the identity names another one. "+
		"Correct baseURL of the identity. If the portal has a new URL, correct annotation %s", home, infrav1.RecordAnnotation)
}

// flow names this portal cluster to the account's limiter.
func (s *scope) flow() string {
	return client.ObjectKeyFromObject(s.controlPlane).String()
}

// beingDeleted reports whether the Cluster or the control plane is being deleted. Nothing is scaled then.
func (s *scope) beingDeleted() bool {
	return !s.controlPlane.DeletionTimestamp.IsZero() || s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero()
}

func (s *scope) clusterKey() client.ObjectKey { return util.ObjectKey(s.cluster) }

// change writes one change of metadata, spec and the stored state with an optimistic lock.
func (r *Reconciler) change(ctx context.Context, s *scope, change func(next *operation.State)) error {
	next := s.State
	err := r.writer().Change(ctx, s.controlPlane, func() {
		change(&next)
		next.Put(s.controlPlane)
	})
	if err != nil {
		return fmt.Errorf("write PortalControlPlane: %w", err)
	}
	s.State = next
	return nil
}

// done reports whether the condition's step ran in this pass and is done.
func (s *scope) done(condition string) bool {
	o, reached := s.outcomes[condition]
	return reached && o.IsDone()
}
