// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// isolatedCIDR is the CIDR of the network that a cluster gets if none is given. The specification does not show its value.
const isolatedCIDR = "10.0.0.0/16"

// reservedAddresses of each network are not usable: the specification counts 251 in a /24 and 507 in a /23.
const reservedAddresses = 5

// Network receives the nodes of clusters.
type Network struct {
	ID       string
	Account  string
	CIDR     string
	Name     string // may be empty
	VPCID    string // empty until a cluster brings it into its VPC
	Isolated bool   // made for one cluster, and removed with it
}

type wireNetwork struct {
	ID    string `json:"id"`
	CIDR  string `json:"cidr"`
	Name  string `json:"name,omitempty"`
	VPCID string `json:"vpcId,omitempty"`
}

func (n *Network) wire() wireNetwork {
	return wireNetwork{ID: n.ID, CIDR: n.CIDR, Name: n.Name, VPCID: n.VPCID}
}

// Networks returns all networks, oldest first.
func (p *Portal) Networks() []Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Network, 0, len(p.networks))
	for _, n := range p.networks {
		out = append(out, *n)
	}
	return out
}

// networkBody is the body of POST /networks. Only cidr is documented. name and vpcId are our choice.
type networkBody struct {
	CIDR  string `json:"cidr" portal:"required"`
	Name  string `json:"name"`
	VPCID string `json:"vpcId"`
}

// createNetwork answers POST /networks, with the record or with a job (Shapes.NetworkStatus).
func (p *Portal) createNetwork(c *call) (answer, *refusal) {
	var body networkBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkNetwork(c.account, body); err != nil {
		return answer{}, err
	}
	create := func() any {
		n := &Network{ID: p.newID("net"), Account: c.account, CIDR: body.CIDR, Name: body.Name, VPCID: body.VPCID}
		p.networks = append(p.networks, n)
		return p.opts.Shapes.created("network", n.wire())
	}
	if p.opts.Shapes.NetworkStatus != http.StatusAccepted {
		out := create()
		c.note(LogEntry{Object: "network", ID: p.networks[len(p.networks)-1].ID, Account: c.account, To: "created", Detail: body.CIDR})
		return answer{status: p.opts.Shapes.NetworkStatus, body: out}, nil
	}
	return p.startJob(c, jobSpec{kind: JobCreateNetwork, takes: p.opts.Durations.Network, work: func(ctx context.Context, takes time.Duration) (any, error) {
		if err := sleep(ctx, takes); err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		out := create()
		p.record(LogEntry{Object: "network", ID: p.networks[len(p.networks)-1].ID, Account: c.account, To: "created", Detail: body.CIDR})
		return out, nil
	}}), nil
}

// checkNetwork refuses what cannot be a network: a malformed CIDR with 400, one outside its VPC with 422. Networks may
// overlap, since the specification says nothing else. Callers hold mu.
func (p *Portal) checkNetwork(account string, body networkBody) *refusal {
	cidr, err := parseCIDR(body.CIDR)
	if err != nil || body.VPCID == "" {
		return err
	}
	vpc, err := p.vpcByID(account, body.VPCID)
	if err != nil || vpc.CIDR == "" {
		return err
	}
	outer := netip.MustParsePrefix(vpc.CIDR)
	if !outer.Contains(cidr.Addr()) || cidr.Bits() < outer.Bits() {
		return invalid("cidr", "%s is not inside the VPC's %s", cidr, outer).as(http.StatusUnprocessableEntity)
	}
	return nil
}

// parseCIDR reads an IPv4 network: no host bits, and room for at least one node.
func parseCIDR(text string) (netip.Prefix, *refusal) {
	cidr, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return cidr, invalid("cidr", "%q is not in CIDR notation", text)
	case !cidr.Addr().Is4():
		return cidr, invalid("cidr", "%s is not an IPv4 network", cidr)
	case cidr.Masked() != cidr:
		return cidr, invalid("cidr", "%s has host bits set: did you mean %s?", cidr, cidr.Masked())
	case usable(cidr) < 1:
		return cidr, invalid("cidr", "%s has no room for a node", cidr)
	}
	return cidr, nil
}

// usable addresses of a network.
func usable(cidr netip.Prefix) int { return 1<<(32-cidr.Bits()) - reservedAddresses }

// networkByID finds a network of the account. Callers hold mu.
func (p *Portal) networkByID(account, id string) (*Network, *refusal) {
	for _, n := range p.networks {
		if n.ID == id && n.Account == account {
			return n, nil
		}
	}
	return nil, invalid("networkId", "there is no network %q in this account", id)
}

// checkRoom refuses more nodes than the network has addresses for, those of its other clusters counted. The
// specification only advises sizes (Kubernetes endpoints 4). The emulator lets a network be full. Callers hold mu.
func (p *Portal) checkRoom(n *Network, except *cluster, nodes int, field string) *refusal {
	taken := nodes
	for _, c := range p.occupants() {
		if c != except && c.NetworkID == n.ID {
			taken += c.reserved + c.ControlNodes
		}
	}
	if room := usable(netip.MustParsePrefix(n.CIDR)); taken > room {
		return invalid(field, "network %s has %d usable addresses, %d would be needed", n.CIDR, room, taken).as(http.StatusUnprocessableEntity)
	}
	return nil
}
