// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var createChecks = []check{
	{name: "endpoints/POST kubernetes-clusters", run: func(p *probe) {
		c := p.cluster()
		c.accepted.text("jobId")
		c.accepted.text("status")
		c.succeeded()
	}},
	{name: "create/name is required", run: required("name", 5)},
	{name: "create/description is required", run: required("description", 5)},
	{name: "create/zoneId is required", run: required("zoneId", 5)},
	{name: "create/kubernetesVersionId is required", run: required("kubernetesVersionId", 5)},
	{name: "create/kubernetesVersionId is one of the list", run: func(p *probe) {
		p.refuseCreate(p.parameters().with("kubernetesVersionId", unknownID)).refused()
	}},
	{name: "create/serviceOfferingId is required", run: required("serviceOfferingId", 5)},
	{name: "create/size is required", run: required("size", "two")},
	{name: "create/controlNodes is required", run: required("controlNodes", "one")},
	{name: "create/vpcId is required", run: required("vpcId", 5)},
	{name: "create/vpcId is the VPC of the network", run: tierOfVPC},
	{name: "create/sshKeyPair is required", run: required("sshKeyPair", 5)},
	{name: "create/without networkId there is an isolated network", run: isolatedNetwork},
	{name: "create/size workers and controlNodes control nodes", run: func(p *probe) {
		p.hidden(inBooks)
		p.newCluster(p.parameters().with("size", 4).with("controlNodes", 3))
		p.wantNodes(3, 4)
	}},
	{name: "create/an idempotency key changes nothing", run: idempotencyKey},
	{name: "status/422 for a broken business rule", run: businessRule},
	{name: "limits/50 workers, not 51", run: workerLimit},
	{name: "clusters/nodes are placed in the given network", run: placed},
	{name: "clusters/40 workers and 3 control nodes fit into a /24", run: func(p *probe) {
		p.hidden("makes 43 machines")
		if p.Tier.Workers < 40 {
			p.skip("the account's tier has no room for 40 workers")
		}
		network := p.newNetwork("10.9.0.0/24")
		p.newCluster(p.parameters().with("networkId", network).with("size", 40).with("controlNodes", 3))
		p.wantNodes(3, 40)
	}},
}

const inBooks = "needs to look into the portal's books"

// required checks that a create call without the parameter, or with one of another type, creates no cluster and returns an error that names
// the field.
func required(name string, wrong any) func(*probe) {
	return func(p *probe) {
		body := p.parameters()
		for _, body := range []parameters{body.without(name), body.with(name, wrong)} {
			if field := p.refuseCreate(body).refused("INVALID_PARAMETER").at("error", "field"); field != name {
				p.Errorf("field is %v, want %s", field, name)
			}
		}
	}
}

// refuseCreate sends a create call that the portal must refuse.
func (p *probe) refuseCreate(body parameters) *answer {
	a := p.me().making("cluster", body.name(), p.me().post("/kubernetes-clusters", body.String()))
	if a.status == http.StatusAccepted {
		p.Fatalf("a cluster is made of %s", body) // deleted at the end of the test
	}
	if p.books != nil && len(p.books.Clusters()) != 0 {
		p.Errorf("the portal refused the request but created a cluster")
	}
	return a
}

// tierOfVPC checks that the portal creates no cluster with the network of one VPC and the id of another, and that it creates one with the
// network's own VPC.
func tierOfVPC(p *probe) {
	p.hidden("which field puts a network into a VPC is not shown")
	vpc := p.vpc().id
	body := p.parameters().with("networkId", p.newNetwork("10.9.0.0/24", "vpcId", vpc))
	p.refuseCreate(body).refused()
	p.newCluster(body.with("vpcId", vpc))
}

func isolatedNetwork(p *probe) {
	id := p.cluster().id
	if p.books == nil {
		return // the network can only be checked in the portal's records
	}
	networks := p.books.Networks()
	if len(networks) != 1 || !networks[0].Isolated || networks[0].CIDR == "" || p.record(id).NetworkID != networks[0].ID {
		p.Errorf("the cluster's network is %+v", networks)
	}
}

// idempotencyKey checks that a second request with the same key counts as another request.
func idempotencyKey(p *probe) {
	p.hidden("makes two clusters")
	body := p.parameters()
	header := http.Header{"Idempotency-Key": {"one"}}
	first, second := p.keyed(body, header), p.keyed(body, header)
	if first.want(http.StatusAccepted).text("jobId") == second.want(http.StatusAccepted).text("jobId") || len(p.books.Clusters()) != 2 {
		p.Errorf("two requests made %d clusters", len(p.books.Clusters()))
	}
}

// keyed sends a create call with additional headers, and repeats it while the platform has no capacity.
func (p *probe) keyed(body parameters, header http.Header) *answer {
	for range patience {
		a := p.me().making("cluster", body.name(), p.me().once("POST", "/kubernetes-clusters", body.String(), header))
		if a.status < 400 {
			return a
		}
		time.Sleep(5 * time.Second)
	}
	p.Fatal("the portal created no cluster")
	return nil
}

// businessRule violates a rule of the emulator: a cluster cannot be downgraded. The specification shows no business rules.
func businessRule(p *probe) {
	p.hidden("which business rules there are is not shown")
	older := p.usable()[0]
	c := p.newCluster(p.parameters().with("kubernetesVersionId", at(p.later(), "id")))
	p.me().post("/kubernetes-clusters/"+c.id+"/upgrade", object("kubernetesVersionId", at(older, "id"))).
		want(http.StatusUnprocessableEntity).refused()
}

func workerLimit(p *probe) {
	p.hidden("makes 50 machines")
	most := p.Tier.Workers
	p.refuseCreate(p.parameters().with("size", most+1)).refused()
	c := p.newCluster(p.parameters().with("size", most))
	p.wantNodes(1, most)
	p.me().post("/kubernetes-clusters/"+c.id+"/scale", object("size", most+1)).refused()
}

// placed checks that the machines are in the network that was created with the chosen CIDR.
func placed(p *probe) {
	p.hidden(inBooks)
	network := p.newNetwork("10.9.0.0/24")
	body := p.parameters().with("networkId", network)
	c := p.newCluster(body)
	if got := p.record(c.id); got.NetworkID != network || got.VPCID != body["vpcId"] {
		p.Errorf("the cluster is in VPC %s, network %s", got.VPCID, got.NetworkID)
	}
	for _, instance := range p.books.Instances() {
		if instance.NetworkID != network {
			p.Errorf("instance %s is in network %s, want %s", instance.ID, instance.NetworkID, network)
		}
	}
	i := slices.IndexFunc(p.books.Networks(), func(n emulator.Network) bool { return n.ID == network })
	if got := p.books.Networks()[i]; got.CIDR != "10.9.0.0/24" || len(p.books.Networks()) != 1 {
		p.Errorf("the network is %s, one of %d", got.CIDR, len(p.books.Networks()))
	}
}

// record returns a cluster of the portal's records.
func (p *probe) record(id string) emulator.Cluster {
	clusters := p.books.Clusters()
	i := slices.IndexFunc(clusters, func(c emulator.Cluster) bool { return c.ID == id })
	if i < 0 {
		p.Fatalf("the portal's records have no cluster %s", id)
	}
	return clusters[i]
}

// wantNodes checks the machines of the only cluster.
func (p *probe) wantNodes(control, workers int) {
	clusters := p.books.Clusters()
	if len(clusters) != 1 {
		p.Fatalf("%d clusters, want one", len(clusters))
	}
	counted := map[bool]int{}
	for _, node := range clusters[0].Nodes {
		counted[node.ControlPlane]++
	}
	if counted[true] != control || counted[false] != workers {
		p.Errorf("%d control nodes and %d workers, want %d and %d", counted[true], counted[false], control, workers)
	}
	if got := len(p.books.Instances()); got != control+workers {
		p.Errorf("%d instances, want %d", got, control+workers)
	}
}
