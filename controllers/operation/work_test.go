// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	r, err := LoadRecord(cp)
	if err != nil {
		return Record{}
	}
	return *r
}

func succeeded(cp *infrav1.PortalControlPlane) bool {
	op, err := Load(cp)
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

// request implements Request for all of them, as the controllers do.
type request struct {
	f      *fixture
	cp     *infrav1.PortalControlPlane
	portal *cloud.Client
	gone   bool
}

func (r *request) Send(ctx context.Context) (cloud.Created, error) {
	var job cloud.Job
	var err error
	switch r.f.work.Type {
	case Create:
		job, err = r.portal.CreateCluster(ctx, clusterRequest(r.portal, r.cp.Spec.ClusterName))
	case CreateNetwork:
		return r.portal.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: r.f.work.target})
	case Scale:
		job, err = r.portal.ScaleCluster(ctx, r.f.id, 5)
	case Upgrade:
		job, err = r.portal.UpgradeCluster(ctx, r.f.id, versionID(r.portal, r.f.work.target))
	case Delete:
		job, err = r.portal.DeleteCluster(ctx, r.f.id)
		r.gone = cloud.IsNotFound(err)
	}
	return cloud.Created{Job: job}, err
}

func (r *request) UpdateObject(op *Operation, id string, _ error) {
	known := record(r.cp)
	switch {
	case op.Type == Create && op.Result == Succeeded:
		r.cp.Spec.ClusterID = id
	case op.Type == Create && op.Result == Failed:
		r.cp.Spec.ClusterName = op.Target + "x"
	case op.Type == CreateNetwork && op.Result == Succeeded:
		metav1.SetMetaDataAnnotation(&r.cp.ObjectMeta, networkAnnotation, id)
	case op.Type == Upgrade && op.Result == Succeeded:
		known.Version = op.Target
	case op.Type == Scale && (op.Lost() || op.Result == Failed):
		known.Size = SizeUnknown
	case op.Type == Scale:
		known.Size = op.Size()
	}
	PutRecord(r.cp, &known)
}

// Find implements Finder. A network cannot be found.
func (r *request) Find(ctx context.Context) (string, error) {
	if r.f.work.Type != Create {
		return "", nil
	}
	found, err := r.portal.FindClusters(ctx, r.cp.Spec.ClusterName)
	if err != nil || len(found) != 1 {
		return "", err
	}
	return found[0].ID, nil
}
