// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// work is one of the five operations, and how it shows that it is done.
type work struct {
	Type                       Type
	target, method, route, job string
	// reached reports whether the object shows that the work is done.
	reached func(cp *infrav1.PortalControlPlane) bool
	// seen reports whether the portal has done it, as Nodes would show.
	seen func(f *fixture) bool
}

const networkAnnotation = infrav1.NetworkAnnotation

func record(cp *infrav1.PortalControlPlane) Record {
	state, err := Load(cp)
	if err != nil {
		return Record{}
	}
	return state.Record
}

// lastOf returns the last operation of the object.
func lastOf(obj client.Object) (*Operation, error) {
	state, err := Load(obj)
	return state.Last, err
}

// putLast makes op the last operation of the object. The record stays.
func putLast(obj client.Object, op *Operation) {
	state, err := Load(obj)
	if err != nil {
		panic(err)
	}
	state.Last = op
	state.Put(obj)
}

func succeeded(cp *infrav1.PortalControlPlane) bool {
	op, err := lastOf(cp)
	return err == nil && op != nil && op.Result == Succeeded
}

var works = []work{
	{
		Type: Create, target: "story-1", method: "POST", route: "/kubernetes-clusters", job: "create cluster",
		reached: func(cp *infrav1.PortalControlPlane) bool { return cp.Spec.ClusterID != "" && succeeded(cp) },
		seen:    func(f *fixture) bool { return len(f.portal.Clusters()) > 0 },
	},
	{
		Type: CreateNetwork, target: "10.0.0.0/24", method: "POST", route: "/networks", job: "create network",
		reached: func(cp *infrav1.PortalControlPlane) bool {
			return cp.Annotations[networkAnnotation] != "" && succeeded(cp)
		},
		seen: func(f *fixture) bool { return len(f.portal.Networks()) > 0 },
	},
	{
		Type: Scale, target: "5", method: "POST", route: "/kubernetes-clusters/{cluster_id}/scale", job: "scale cluster",
		reached: func(cp *infrav1.PortalControlPlane) bool { return record(cp).Size == 5 && succeeded(cp) },
		seen:    func(f *fixture) bool { return len(f.portal.Clusters()[0].Nodes) == 6 }, // with a control node
	},
	{
		Type: Upgrade, target: "v1.36.3", method: "POST", route: "/kubernetes-clusters/{cluster_id}/upgrade", job: "upgrade cluster",
		reached: func(cp *infrav1.PortalControlPlane) bool { return record(cp).Version == "v1.36.3" && succeeded(cp) },
		seen: func(f *fixture) bool {
			for _, n := range f.portal.Clusters()[0].Nodes {
				if n.Version != "v1.36.3" {
					return false
				}
			}
			return true
		},
	},
	{
		Type: Delete, target: "id", method: "DELETE", route: "/kubernetes-clusters/{cluster_id}", job: "delete cluster",
		reached: succeeded,
		seen:    func(*fixture) bool { return false }, // no Nodes exist: a 404 shows it
	},
}

// send sends the request of the work, as the controllers do.
func (f *fixture) send(m Runner) Send {
	return func(ctx context.Context) (created cloud.Created, err error) {
		switch f.work.Type {
		case Create:
			created.Job, err = m.Portal.CreateCluster(ctx, clusterRequest(m.Portal, m.State.Last.Target))
		case CreateNetwork:
			return m.Portal.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: f.work.target})
		case Scale:
			created.Job, err = m.Portal.ScaleCluster(ctx, f.id, 5)
		case Upgrade:
			created.Job, err = m.Portal.UpgradeCluster(ctx, f.id, versionID(m.Portal, f.work.target))
		case Delete:
			created.Job, err = m.Portal.DeleteCluster(ctx, f.id)
		}
		return created, err
	}
}

// next returns the operation of the work, whose intent is about to be stored.
func (f *fixture) next(cp *infrav1.PortalControlPlane) *Operation {
	op := New(f.work.Type, f.work.target)
	op.Attempt, op.From = "1", 2
	if f.work.Type == Create {
		op.Target = cp.Spec.ClusterName
		before := record(cp)
		op.Record = &Record{
			Name: before.Name, Size: 2, Workers: &infrav1.WorkerParameters{}, AbandonedNames: before.AbandonedNames, Failures: before.Failures,
		}
	}
	return op
}
