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
	"github.com/capportal/cluster-api-provider-portal/controllers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// scope is one pass over one PortalControlPlane: what was read, and how the steps ended.
type scope struct {
	controlPlane  *infrav1.PortalControlPlane
	cluster       *clusterv1.Cluster     // nil: gone, or not linked yet
	portalCluster *infrav1.PortalCluster // nil: gone, or not linked yet

	identity identity.Identity
	// infrastructure says whether the portal may be called: PortalCluster provisioned, identity usable.
	infrastructure outcome.Outcome

	op     *operation.Operation // in flight, or nil
	last   *operation.Operation // op, or the last one that has ended, or nil
	record *operation.Record

	// access is how the API server reacts to the stored kubeconfig, and accessSince since when.
	access      access
	accessSince time.Time
	// userManaged is the name of the kubeconfig Secret if it is user-managed.
	userManaged string

	// Of the workload cluster, once connected.
	workload     client.Client
	running      string // version of the API server
	nodes        []corev1.Node
	otherIDs     []string    // providerIDs of Nodes that are no workers
	nodeUIDs     []types.UID // of all Nodes
	controlNodes int         // Nodes with a mark of control nodes
	unmarked     int         // Nodes without one
	bound        bool        // some PortalMachine holds a Node, or has held one

	upgradeIsNext bool // and the MachinePool stays paused for it

	desired     desired
	claimed     []infrav1.PortalMachine
	checks      healthChecks    // conditions that the Cluster's MachineHealthChecks act on
	sharedOrder claims.Order    // of removal, known from other clusters at the portal
	pinned      map[string]bool // Nodes with Pods that must not be evicted, if the cluster is autoscaled
	coreProblem string          // why Machines must not take nodes over, or ""
	plan        claims.Plan
	drains      map[string]drain.Progress // of the provider's own drains, by Node

	outcomes map[string]outcome.Outcome
	// unreadable says which of our annotations somebody has spoilt; then nothing is done.
	unreadable error
}

// loadScope reads what every step needs. What is missing is no error: the steps say what they wait for.
func (r *Reconciler) loadScope(ctx context.Context, controlPlane *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{controlPlane: controlPlane, cluster: cluster, outcomes: map[string]outcome.Outcome{}, record: &operation.Record{}}
	s.unreadable = s.loadOperation()
	if s.unreadable == nil {
		var err error
		if s.portalCluster, err = r.portalCluster(ctx, s); err != nil {
			return nil, err
		}
		s.infrastructure = r.loadIdentity(ctx, s)
	}
	return s, nil
}

// loadOperation reads the last operation and the record from the object's annotations.
func (s *scope) loadOperation() (err error) {
	if s.last, err = operation.Load(s.controlPlane); err != nil {
		return err
	}
	s.op = nil
	if s.last.InFlight() {
		s.op = s.last
	}
	s.record, err = operation.LoadRecord(s.controlPlane)
	return err
}

// adopted reports whether the cluster was neither created nor scaled from here, and its Machines and nodes were never one to one.
// Its surplus nodes are not removed.
func (s *scope) adopted() bool {
	return s.record.Workers == nil && s.record.Size < 0 && !s.last.Is(operation.Scale)
}

// portalCluster finds the PortalCluster: the one that the Cluster refers to, or one that carries the Cluster's name.
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
		return nil, nil //nolint:nilnil // none is no error
	}
	return &all.Items[0], nil
}

// loadIdentity says whether the portal may be called, and under which identity.
func (r *Reconciler) loadIdentity(ctx context.Context, s *scope) outcome.Outcome {
	if s.portalCluster == nil {
		return outcome.WaitFor(0, infrav1.WaitingForInfrastructureReason, "no PortalCluster found: name it in spec.infrastructureRef of the Cluster")
	}
	deleting := !s.controlPlane.DeletionTimestamp.IsZero() // needs the identity only
	if !deleting && !s.provisioned() && !conditions.IsTrue(s.portalCluster, infrav1.ReadyCondition) {
		return outcome.WaitFor(0, infrav1.WaitingForInfrastructureReason, "PortalCluster %s is not ready: see its conditions", s.portalCluster.Name)
	}
	resolve := r.Identities.Resolve
	if deleting {
		resolve = r.Identities.ResolveToDelete
	}
	var problem outcome.Outcome
	if s.identity, problem = resolve(ctx, s.portalCluster.Namespace, s.portalCluster.Spec.IdentityRef); !problem.IsDone() {
		return problem
	}
	if o := s.atHome(); !o.IsDone() {
		return o
	}
	return s.identity.MayDelete(s.controlPlane.Namespace, s.controlPlane.Spec.ClusterID)
}

// provisioned reports whether the PortalCluster is. It waits for the kubeconfig, so before it is provisioned its condition Ready counts.
func (s *scope) provisioned() bool {
	return s.portalCluster != nil && ptr.Deref(s.portalCluster.Status.Initialization.Provisioned, false)
}

// atHome is done unless the identity names another portal than the one that the portal cluster belongs to. The cluster's id may be the id of
// somebody else's cluster there.
func (s *scope) atHome() outcome.Outcome {
	home := s.record.Portal
	if home == "" || home == s.identity.Portal.Address() {
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.AccountChangedReason, "the portal cluster belongs to the portal %s, and the identity names another one. "+
		"Correct baseURL of the identity. If the portal has a new URL, correct annotation %s", home, infrav1.RecordAnnotation)
}

// flow names this portal cluster to the account's governor and to the backoff.
func (s *scope) flow() string {
	return client.ObjectKeyFromObject(s.controlPlane).String()
}

// retiring tells whether the Cluster or the control plane is being deleted: nothing is scaled then.
func (s *scope) retiring() bool {
	return !s.controlPlane.DeletionTimestamp.IsZero() || s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero()
}

func (s *scope) clusterKey() client.ObjectKey { return util.ObjectKey(s.cluster) }

// change writes one change of metadata or spec with an optimistic lock, and keeps the scope in step with it.
func (r *Reconciler) change(ctx context.Context, s *scope, change func()) error {
	if err := r.writer().Change(ctx, s.controlPlane, change); err != nil {
		return fmt.Errorf("write PortalControlPlane: %w", err)
	}
	return s.loadOperation()
}

// done reports whether the step of that condition was reached in this pass, and all is as it wants.
func (s *scope) done(condition string) bool {
	o, reached := s.outcomes[condition]
	return reached && o.IsDone()
}
