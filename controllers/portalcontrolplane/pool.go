// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalmachinepool"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=portalmachinepools,verbs=get;list;watch;patch

// pool is the MachinePool that gets the nodes which no Machine claims, with its PortalMachinePool.
type pool struct {
	machinePool clusterv1.MachinePool
	infra       *infrav1.PortalMachinePool // nil if it is not created yet, or is gone
}

// readPool returns the pool that gets nodes, with its PortalMachinePool, or nil.
func readPool(ctx context.Context, reader client.Reader, all []clusterv1.MachinePool) (*pool, error) {
	chosen := portalmachinepool.Chosen(all)
	if chosen == nil {
		return nil, nil //nolint:nilnil // a missing object is not an error
	}
	infra, name := &infrav1.PortalMachinePool{}, chosen.Spec.Template.Spec.InfrastructureRef.Name
	err := reader.Get(ctx, client.ObjectKey{Namespace: chosen.Namespace, Name: name}, infra)
	switch {
	case apierrors.IsNotFound(err):
		infra = nil
	case err != nil:
		return nil, fmt.Errorf("read PortalMachinePool %s: %w", name, err)
	}
	return &pool{machinePool: *chosen, infra: infra}, nil
}

// poolView returns the pool for a plan. Until core has removed a MachinePool, it may delete Nodes under the names that it knows,
// even if the PortalMachinePool is gone already.
func (s *scope) poolView() *claims.Pool {
	p := s.desired.pool
	if p == nil {
		return nil
	}
	mp := &p.machinePool
	deleting := !mp.DeletionTimestamp.IsZero() && !portalmachinepool.Stale(mp, p.infra, s.Cluster)
	if p.infra == nil && !deleting {
		return nil
	}
	view := &claims.Pool{
		Replicas: int(ptr.Deref(mp.Spec.Replicas, 0)),
		Deleting: deleting,
		Copied:   mp.Spec.ProviderIDList,
		Others:   s.otherIDs,
	}
	for _, ref := range mp.Status.NodeRefs {
		if !pausedByProvider(mp) { // else the provider removes the nodeRefs before core looks at them
			view.Known = append(view.Known, ref.Name)
		}
	}
	if p.infra != nil {
		view.List = p.infra.Spec.ProviderIDList
	}
	return view
}

// lists reports whether the pool's list names the Node.
func (p *pool) lists(n *corev1.Node) bool {
	return p != nil && p.infra != nil && slices.Contains(p.infra.Spec.ProviderIDList, n.Spec.ProviderID)
}

// mismatchedPool returns the name of the pool if it asks for other workers than the portal cluster has, or "".
func (s *scope) mismatchedPool() string {
	p := s.desired.pool
	if p == nil || p.infra == nil || s.Record.Workers == nil || p.infra.Spec.WorkerParameters == *s.Record.Workers {
		return ""
	}
	return p.infra.Name
}
