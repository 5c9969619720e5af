// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// ClusterState of a managed cluster. The specification names Running only.
type ClusterState string

// The states of a cluster: Creating → Running ⇄ Scaling, Upgrading. All but Creating → Deleting → no record. A
// create job that fails half way leaves the cluster Failed. Such a cluster can only be deleted. Alert comes with Fault.Alert,
// Traits.ScanInterval or Traits.RedundantFails.
const (
	ClusterCreating  ClusterState = "Creating"
	ClusterRunning   ClusterState = "Running"
	ClusterScaling   ClusterState = "Scaling"
	ClusterUpgrading ClusterState = "Upgrading"
	ClusterDeleting  ClusterState = "Deleting"
	ClusterFailed    ClusterState = "Failed"
	ClusterAlert     ClusterState = "Alert"
)

var clusterStates = []ClusterState{
	ClusterCreating, ClusterRunning, ClusterScaling, ClusterUpgrading, ClusterDeleting, ClusterFailed, ClusterAlert,
}

// Cluster is a managed Kubernetes cluster as the portal records it.
type Cluster struct {
	ID                string       `json:"id"`
	Account           string       `json:"account"`
	Name              string       `json:"name"`
	Description       string       `json:"description"`
	ZoneID            string       `json:"zoneId"`
	VersionID         string       `json:"kubernetesVersionId"`
	ServiceOfferingID string       `json:"serviceOfferingId"`
	Size              int          `json:"size"` // workers
	ControlNodes      int          `json:"controlNodes"`
	NetworkID         string       `json:"networkId"`
	VPCID             string       `json:"vpcId"`
	SSHKeyPair        string       `json:"sshKeyPair"`
	State             ClusterState `json:"state"`
	Version           string       `json:"version"`       // of the last create or upgrade that succeeded, such as v1.36.3
	JobID             string       `json:"job,omitempty"` // of the operation that locks the cluster
	Created           time.Time    `json:"created"`
	Nodes             []Node       `json:"nodes"` // oldest first. Only the Node objects of those that are Gone remain
}

// cluster is a Cluster with what the portal needs to run it.
type cluster struct {
	Cluster
	nodes         []*node // Cluster.Nodes is filled in snapshots only
	rand          *rand.Rand
	serverVersion string // of the API server. It is ahead of Version during an upgrade
	servedOnce    bool   // it has been Running, so there is a kubeconfig
	reserved      int    // workers that the network has room for, at least Size
	standIn       string // kubeconfig of a cluster without Kubernetes servers
	stored        string // kubeconfig that is returned from now on, or ""
	moves         int    // of its endpoint
}

// createBody is the documented minimum set (Resources, Kubernetes cluster): all of it is required but networkId.
type createBody struct {
	Name                string `json:"name" portal:"required"`
	Description         string `json:"description" portal:"required"`
	ZoneID              string `json:"zoneId" portal:"required"`
	KubernetesVersionID string `json:"kubernetesVersionId" portal:"required"`
	ServiceOfferingID   string `json:"serviceOfferingId" portal:"required"`
	Size                int    `json:"size" portal:"required"`
	ControlNodes        int    `json:"controlNodes" portal:"required"`
	NetworkID           string `json:"networkId"`
	VPCID               string `json:"vpcId" portal:"required"`
	SSHKeyPair          string `json:"sshKeyPair" portal:"required"`
}

// wireCluster is the cluster's record in answers. Fields beyond the create parameters are our choice.
type wireCluster struct {
	ID string `json:"id"`
	createBody
	State ClusterState `json:"state"`
}

func (cl *cluster) wire() wireCluster {
	return wireCluster{ID: cl.ID, State: cl.State, createBody: createBody{
		Name: cl.Name, Description: cl.Description, ZoneID: cl.ZoneID, KubernetesVersionID: cl.VersionID,
		ServiceOfferingID: cl.ServiceOfferingID, Size: cl.Size, ControlNodes: cl.ControlNodes,
		NetworkID: cl.NetworkID, VPCID: cl.VPCID, SSHKeyPair: cl.SSHKeyPair,
	}}
}

// createCluster answers POST /kubernetes-clusters. Without Traits.UniqueNames, a request that is sent twice makes two clusters.
func (p *Portal) createCluster(c *call) (answer, *refusal) {
	var body createBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	version, err := p.checkCreate(c.account, &body)
	if err != nil {
		return answer{}, err
	}
	cl := &cluster{serverVersion: version.SemanticVersion, reserved: body.Size, Cluster: Cluster{
		ID: p.newID("cluster"), Account: c.account, Name: body.Name, Description: body.Description, ZoneID: body.ZoneID,
		VersionID: version.ID, ServiceOfferingID: body.ServiceOfferingID, Size: body.Size, ControlNodes: body.ControlNodes,
		NetworkID: body.NetworkID, VPCID: body.VPCID, SSHKeyPair: body.SSHKeyPair, Version: version.SemanticVersion,
		Created: time.Now(),
	}}
	cl.rand = p.randFor(cl.ID)
	p.clusters = append(p.clusters, cl)
	p.placeCluster(c, cl)
	cl.State = ClusterCreating
	c.note(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: string(cl.State),
		Detail: fmt.Sprintf("name=%s size=%d controlNodes=%d version=%s", cl.Name, cl.Size, cl.ControlNodes, cl.Version)})
	return p.lock(c, cl, jobSpec{
		kind: JobCreateCluster, takes: p.opts.Durations.Create,
		work:  func(ctx context.Context, takes time.Duration) (any, error) { return p.buildCluster(ctx, cl, takes) },
		undo:  func() { p.forget(cl) },
		spoil: func() { p.unlock(cl, ClusterFailed) },
	}), nil
}

// placeCluster brings the network into the VPC, or makes an isolated one. Callers hold mu.
func (p *Portal) placeCluster(c *call, cl *cluster) {
	if cl.NetworkID == "" {
		n := &Network{ID: p.newID("net"), Account: cl.Account, CIDR: isolatedCIDR, Isolated: true}
		p.networks = append(p.networks, n)
		cl.NetworkID = n.ID
		c.note(LogEntry{Object: "network", ID: n.ID, Account: n.Account, To: "created", Detail: n.CIDR + " isolated"})
		return
	}
	if n, err := p.networkByID(cl.Account, cl.NetworkID); err == nil {
		n.VPCID = cl.VPCID
	}
}

// buildCluster is the work of a create job.
func (p *Portal) buildCluster(ctx context.Context, cl *cluster, takes time.Duration) (any, error) {
	for i := range cl.ControlNodes + cl.Size {
		p.mu.Lock() // for one node at a time, so that the portal answers in between
		p.addNode(cl, i < cl.ControlNodes)
		p.mu.Unlock()
	}
	if err := p.applyNodes(ctx, cl, takes); err != nil {
		p.unlock(cl, ClusterFailed)
		return nil, err
	}
	p.mu.Lock()
	for range p.opts.VolumesPerCluster {
		p.addVolume(Volume{Account: cl.Account, ClusterID: cl.ID})
	}
	cl.servedOnce = true
	p.mu.Unlock()
	p.unlock(cl, ClusterRunning)
	return p.jobResult(cl), nil
}

// clusterConfig answers GET /kubernetes-clusters/{cluster_id}/config once the cluster has been Running.
func (p *Portal) clusterConfig(c *call) (answer, *refusal) {
	p.mu.Lock()
	cl, err := p.readableCluster(c)
	if err == nil && (!cl.servedOnce || cl.State == ClusterDeleting && p.opts.Traits.DeletedClusters != DeletedReadable) {
		err = refuse(CodeOperationNotAllowed, "cluster %s is %s: it has no kubeconfig", cl.ID, cl.State)
	}
	p.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	kubeconfig, failed := p.kubeconfig(c.request.Context(), cl)
	if failed != nil {
		c.note(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "kubeconfig unavailable", Detail: failed.Error()})
		return answer{}, refuse(CodeInternalError, "the kubeconfig of cluster %s cannot be read now", cl.ID)
	}
	return answer{status: http.StatusOK, body: map[string]string{"kubeconfig": kubeconfig}}, nil
}

// operate starts an operation on a cluster unless its state forbids it or another one locks it (States 2 and 3). Callers hold mu.
func (p *Portal) operate(c *call, cl *cluster, during ClusterState, what string, o jobSpec) (answer, *refusal) {
	switch {
	case cl.JobID != "":
		return answer{}, refuse(CodeResourceBusy, "cluster %s is %s", cl.ID, cl.State)
	case (cl.State == ClusterFailed || cl.State == ClusterDeleting) && during != ClusterDeleting:
		return answer{}, refuse(CodeOperationNotAllowed, "cluster %s is %s: it can only be deleted", cl.ID, cl.State)
	case cl.State == ClusterAlert && during != ClusterDeleting:
		return answer{}, refuse(CodeOperationNotAllowed, "cluster %s is in state %s: it cannot be scaled or upgraded", cl.ID, cl.State)
	}
	c.note(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: string(during), Detail: what})
	cl.State = during
	if o.undo == nil {
		o.undo = func() { p.settle(cl, c.faults, c.faults.failEarly()) }
	}
	return p.lock(c, cl, o), nil
}

// lock starts the job that holds a cluster. Callers hold mu.
func (p *Portal) lock(c *call, cl *cluster, o jobSpec) answer {
	o.clusterID = cl.ID
	a := p.startJob(c, o)
	cl.JobID = a.body.(wireJob).JobID
	return a
}

// settle ends a scale or an upgrade, which may have failed.
func (p *Portal) settle(cl *cluster, faults matchedFaults, failed error) {
	alerts := faults.alerts() || p.opts.Traits.ScanInterval > 0 || errors.Is(failed, errRedundant)
	p.mu.Lock()
	alert := failed != nil && alerts && !p.jobsByID[cl.JobID].isRepaired()
	p.mu.Unlock()
	if alert {
		p.unlock(cl, ClusterAlert)
	} else {
		p.unlock(cl, ClusterRunning)
	}
}

// unlock ends an operation. The nodes of a cluster in Alert are counted when it is repaired.
func (p *Portal) unlock(cl *cluster, state ClusterState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // the portal is closing: the operation did not end
	}
	cl.JobID = ""
	workers := len(cl.workers())
	if state != ClusterAlert {
		cl.Size = workers
	}
	cl.reserved = max(cl.Size, workers)
	p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: string(state),
		Detail: fmt.Sprintf("size=%d version=%s", cl.Size, cl.Version)})
	cl.State = state
}

// clusterOf finds the cluster that a call names, if it is the account's. Callers hold mu.
func (p *Portal) clusterOf(c *call) (*cluster, *refusal) {
	id := c.params["cluster_id"]
	for _, cl := range p.clusters {
		if cl.ID == id && cl.Account == c.account && !p.hides(cl) {
			return cl, nil
		}
	}
	return nil, notFound("cluster", id)
}

// clusterState returns the state of the cluster that the call names, or "". Callers hold mu.
func (c *call) clusterState() ClusterState {
	cl, err := c.portal.clusterOf(c)
	if err != nil {
		return ""
	}
	return cl.State
}

// jobResult is a cluster as a job's result.
func (p *Portal) jobResult(cl *cluster) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opts.Shapes.created("kubernetesCluster", cl.wire())
}

// listClusters answers GET /kubernetes-clusters, where Options.ListClusters adds it.
func (p *Portal) listClusters(c *call) (answer, *refusal) {
	query := c.request.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []wireCluster{}
	for _, cl := range p.clusters {
		if cl.Account == c.account && !p.hides(cl) && (!query.Has("name") || cl.Name == query.Get("name")) {
			out = append(out, cl.wire())
		}
	}
	return answer{status: http.StatusOK, body: p.opts.Shapes.list("kubernetesClusters", out)}, nil
}

// Clusters returns all clusters of all accounts, oldest first.
func (p *Portal) Clusters() []Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Cluster, 0, len(p.clusters))
	for _, cl := range p.clusters {
		snapshot := cl.Cluster
		snapshot.Nodes = cl.present()
		out = append(out, snapshot)
	}
	return out
}
