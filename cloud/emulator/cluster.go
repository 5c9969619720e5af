// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"time"
)

// ClusterState of a managed cluster. The specification names Running only.
type ClusterState string

// The states of a cluster: Creating → Running ⇄ Scaling, Upgrading; any but Creating → Deleting → no record. A create
// job that fails half way leaves Failed, from where only delete leads on.
const (
	ClusterCreating  ClusterState = "Creating"
	ClusterRunning   ClusterState = "Running"
	ClusterScaling   ClusterState = "Scaling"
	ClusterUpgrading ClusterState = "Upgrading"
	ClusterDeleting  ClusterState = "Deleting"
	ClusterFailed    ClusterState = "Failed"
)

// Cluster is a managed Kubernetes cluster as the portal's books have it.
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
	Version           string       `json:"version"`       // such as v1.36.3; of the last create or upgrade that succeeded
	JobID             string       `json:"job,omitempty"` // of the operation that locks the cluster
	Created           time.Time    `json:"created"`
	Nodes             []Node       `json:"nodes"` // oldest first; those that are Gone left their Node object only
}

// cluster is a Cluster with what the portal needs to run it.
type cluster struct {
	Cluster
	nodes         []*node // Cluster.Nodes is filled in snapshots only
	roll          *rand.Rand
	serverVersion string // of the API server; ahead of Version during an upgrade
	servedOnce    bool   // it has been Running, so there is a kubeconfig
	standIn       string // kubeconfig of a cluster that exists in the books only
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

// wireCluster is the cluster's record in answers; beyond the create parameters it is our choice.
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

// clusterName is a DNS label, since nodes are named after their cluster.
var clusterName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// createCluster answers POST /kubernetes-clusters. Names are not unique: a request that is sent twice makes two clusters.
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
	cl := &cluster{serverVersion: version.SemanticVersion, Cluster: Cluster{
		ID: p.newID("cluster"), Account: c.account, Name: body.Name, Description: body.Description, ZoneID: body.ZoneID,
		VersionID: version.ID, ServiceOfferingID: body.ServiceOfferingID, Size: body.Size, ControlNodes: body.ControlNodes,
		NetworkID: body.NetworkID, VPCID: body.VPCID, SSHKeyPair: body.SSHKeyPair, Version: version.SemanticVersion,
		Created: time.Now(),
	}}
	cl.roll = p.rollFor(cl.ID)
	p.clusters = append(p.clusters, cl)
	p.placeCluster(c, cl)
	cl.State = ClusterCreating
	c.note(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: string(cl.State),
		Detail: fmt.Sprintf("name=%s size=%d controlNodes=%d version=%s", cl.Name, cl.Size, cl.ControlNodes, cl.Version)})
	return p.lock(c, cl, order{
		kind: JobCreateCluster, takes: p.opts.Durations.Create,
		work:  func(ctx context.Context, takes time.Duration) (any, error) { return p.buildCluster(ctx, cl, takes) },
		undo:  func() { p.forget(cl) },
		spoil: func() { p.unlock(cl, ClusterFailed) },
	}), nil
}

// checkCreate refuses parameters that cannot make a cluster, in the order of the specification's table. Callers hold mu.
func (p *Portal) checkCreate(account string, body *createBody) (Version, *refusal) {
	if !clusterName.MatchString(body.Name) {
		return Version{}, invalid("name", "a cluster's name is a DNS label of at most 63 lower-case letters, digits and dashes")
	}
	if err := oneOf("zoneId", body.ZoneID, p.opts.Zones); err != nil {
		return Version{}, err
	}
	version, err := p.versionByID(body.KubernetesVersionID)
	if err != nil {
		return version, err
	}
	if err := oneOf("serviceOfferingId", body.ServiceOfferingID, p.opts.ServiceOfferings); err != nil {
		return version, err
	}
	if err := p.checkSize(body.Size); err != nil {
		return version, err
	}
	if body.ControlNodes < 1 {
		return version, invalid("controlNodes", "a cluster has at least one control node")
	}
	if err := p.checkPlace(account, body); err != nil {
		return version, err
	}
	if err := oneOf("sshKeyPair", body.SSHKeyPair, p.opts.SSHKeyPairs); err != nil {
		return version, err
	}
	owned := 0
	for _, cl := range p.clusters {
		if cl.Account == account {
			owned++
		}
	}
	if p.opts.MaxClusters > 0 && owned >= p.opts.MaxClusters {
		return version, refuse(CodeQuotaExceeded, "the account may have %d clusters", p.opts.MaxClusters)
	}
	return version, nil
}

// checkPlace refuses networks that are not there, belong to another VPC, or are too small. Callers hold mu.
func (p *Portal) checkPlace(account string, body *createBody) *refusal {
	if _, err := p.vpcByID(account, body.VPCID); err != nil {
		return err
	}
	if body.NetworkID == "" {
		return nil
	}
	network, err := p.networkByID(account, body.NetworkID)
	if err != nil {
		return err
	}
	if network.VPCID != "" && network.VPCID != body.VPCID {
		return invalid("networkId", "network %s is in another VPC", network.ID).as(http.StatusUnprocessableEntity)
	}
	return p.checkRoom(network, nil, body.Size+body.ControlNodes, "networkId")
}

// checkSize refuses worker counts beyond the portal's bounds (specification, Limits).
func (p *Portal) checkSize(size int) *refusal {
	if size < 0 {
		return invalid("size", "size is a number of workers")
	}
	if size < p.opts.MinWorkers {
		return invalid("size", "a cluster has at least %d workers", p.opts.MinWorkers).as(http.StatusUnprocessableEntity)
	}
	if size > p.opts.MaxWorkers {
		over := refuse(CodeQuotaExceeded, "a cluster may have at most %d workers; more on request", p.opts.MaxWorkers)
		over.field = "size"
		return over
	}
	return nil
}

// oneOf refuses a value that is not in a list; an empty list knows all values.
func oneOf(field, value string, known []string) *refusal {
	if len(known) == 0 || slices.Contains(known, value) {
		return nil
	}
	return invalid(field, "there is no %s %q", field, value)
}

// placeCluster brings the network into the VPC, or makes an isolated one. Callers hold mu.
func (p *Portal) placeCluster(c *call, cl *cluster) {
	if cl.NetworkID == "" {
		n := &Network{ID: p.newID("net"), Account: cl.Account, CIDR: isolatedCIDR, Isolated: true}
		p.networks = append(p.networks, n)
		cl.NetworkID = n.ID
		c.note(Entry{Object: "network", ID: n.ID, Account: n.Account, To: "created", Detail: n.CIDR + " isolated"})
		return
	}
	if n, err := p.networkByID(cl.Account, cl.NetworkID); err == nil {
		n.VPCID = cl.VPCID
	}
}

// buildCluster is the work of a create job.
func (p *Portal) buildCluster(ctx context.Context, cl *cluster, takes time.Duration) (any, error) {
	p.mu.Lock()
	for range cl.ControlNodes {
		p.addNode(cl, true)
	}
	for range cl.Size {
		p.addNode(cl, false)
	}
	p.mu.Unlock()
	if err := p.reach(ctx, cl, takes); err != nil {
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
	return p.shown(cl), nil
}

// clusterConfig answers GET /kubernetes-clusters/{cluster_id}/config once the cluster has been Running.
func (p *Portal) clusterConfig(c *call) (answer, *refusal) {
	p.mu.Lock()
	cl, err := p.clusterOf(c)
	if err == nil && (!cl.servedOnce || cl.State == ClusterDeleting) {
		err = refuse(CodeOperationNotAllowed, "cluster %s is %s: it has no kubeconfig", cl.ID, cl.State)
	}
	p.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	kubeconfig, failed := p.kubeconfig(c.request.Context(), cl)
	if failed != nil {
		c.note(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "kubeconfig unavailable", Detail: failed.Error()})
		return answer{}, refuse(CodeInternalError, "the kubeconfig of cluster %s cannot be read now", cl.ID)
	}
	return answer{status: http.StatusOK, body: map[string]string{"kubeconfig": kubeconfig}}, nil
}

type scaleBody struct {
	Size int `json:"size" portal:"required"`
}

// scaleCluster answers POST /kubernetes-clusters/{cluster_id}/scale. A size that is there already is a job with nothing to do.
func (p *Portal) scaleCluster(c *call) (answer, *refusal) {
	var body scaleBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cl, err := p.clusterOf(c)
	if err != nil {
		return answer{}, err
	}
	if err := p.checkSize(body.Size); err != nil {
		return answer{}, err
	}
	if network, err := p.networkByID(cl.Account, cl.NetworkID); err == nil && body.Size > cl.Size {
		if err := p.checkRoom(network, cl, body.Size+cl.ControlNodes, "size"); err != nil {
			return answer{}, err
		}
	}
	leave := c.strike.leavesNodes()
	return p.operate(c, cl, ClusterScaling, fmt.Sprintf("size %d → %d", cl.Size, body.Size), order{
		kind: JobScaleCluster, takes: p.opts.Durations.Scale,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			p.mu.Lock()
			p.resize(cl, body.Size, leave)
			p.mu.Unlock()
			err := p.reach(ctx, cl, takes)
			p.unlock(cl, ClusterRunning)
			return p.shown(cl), err
		},
	})
}

// deleteCluster answers DELETE /kubernetes-clusters/{cluster_id}. Its volumes stay (Kubernetes endpoints 3).
func (p *Portal) deleteCluster(c *call) (answer, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cl, err := p.clusterOf(c)
	if err != nil {
		return answer{}, err
	}
	before := cl.State
	return p.operate(c, cl, ClusterDeleting, "", order{
		kind: JobDeleteCluster, takes: p.opts.Durations.Delete,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			err := pace(ctx, takes, func() error { return p.deleteWorkload(ctx, cl.ID) })
			if err != nil {
				p.unlock(cl, before)
				return nil, err
			}
			p.forget(cl)
			return struct{}{}, nil
		},
		undo: func() { p.unlock(cl, before) },
	})
}

// operate starts an operation on a cluster unless its state forbids it or another one locks it (States 2 and 3). Callers hold mu.
func (p *Portal) operate(c *call, cl *cluster, during ClusterState, what string, o order) (answer, *refusal) {
	switch {
	case cl.JobID != "":
		return answer{}, refuse(CodeResourceBusy, "cluster %s is %s", cl.ID, cl.State)
	case cl.State == ClusterFailed && during != ClusterDeleting:
		return answer{}, refuse(CodeOperationNotAllowed, "cluster %s is %s: it can only be deleted", cl.ID, cl.State)
	}
	c.note(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: string(during), Detail: what})
	cl.State = during
	if o.undo == nil {
		o.undo = func() { p.unlock(cl, ClusterRunning) }
	}
	return p.lock(c, cl, o), nil
}

// lock starts the job that holds a cluster. Callers hold mu.
func (p *Portal) lock(c *call, cl *cluster, o order) answer {
	o.clusterID = cl.ID
	a := p.startJob(c, o)
	cl.JobID = a.body.(wireJob).JobID
	return a
}

// unlock ends an operation.
func (p *Portal) unlock(cl *cluster, state ClusterState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // the portal is closing: the operation did not end
	}
	cl.JobID = ""
	cl.Size = len(cl.workers())
	p.record(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: string(state),
		Detail: fmt.Sprintf("size=%d version=%s", cl.Size, cl.Version)})
	cl.State = state
}

// forget removes a cluster's record and its isolated network, and detaches its volumes.
func (p *Portal) forget(cl *cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range cl.nodes {
		p.record(Entry{Object: "node", ID: n.Name, Account: cl.Account, To: "removed", Detail: cl.ID})
	}
	p.clusters = slices.DeleteFunc(p.clusters, func(other *cluster) bool { return other == cl })
	p.networks = slices.DeleteFunc(p.networks, func(n *Network) bool { return n.Isolated && n.ID == cl.NetworkID })
	for _, v := range p.volumes {
		if v.ClusterID == cl.ID {
			v.ClusterID = ""
		}
	}
	p.record(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: "deleted"})
}

// clusterOf finds the cluster that a call names, if it is the account's. Callers hold mu.
func (p *Portal) clusterOf(c *call) (*cluster, *refusal) {
	id := c.params["cluster_id"]
	for _, cl := range p.clusters {
		if cl.ID == id && cl.Account == c.account {
			return cl, nil
		}
	}
	return nil, notFound("cluster", id)
}

// shown is a cluster as a job's result.
func (p *Portal) shown(cl *cluster) any {
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
		if cl.Account == c.account && (!query.Has("name") || cl.Name == query.Get("name")) {
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
	slices.SortFunc(out, func(a, b Cluster) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}
