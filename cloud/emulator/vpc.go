// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"net/http"
	"time"
)

// VPC is a virtual private cloud. Only Name is required.
type VPC struct {
	ID      string // default: made up
	Account string // default: DefaultAccount
	Name    string
	CIDR    string // default: none, any network may be in it
}

type wireVPC struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	CIDR string `json:"cidr,omitempty"`
}

func (v *VPC) wire() wireVPC { return wireVPC{ID: v.ID, Name: v.Name, CIDR: v.CIDR} }

// addVPCs enters the given VPCs, or one called "default" for every account.
func (p *Portal) addVPCs(vpcs []VPC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if vpcs == nil {
		seen := map[string]bool{}
		for _, u := range p.opts.Users {
			orElse(&u.Account, DefaultAccount)
			if !seen[u.Account] {
				vpcs = append(vpcs, VPC{Account: u.Account, Name: "default"})
			}
			seen[u.Account] = true
		}
	}
	for _, v := range vpcs {
		if v.ID == "" {
			v.ID = p.newID("vpc")
		}
		orElse(&v.Account, DefaultAccount)
		p.vpcs = append(p.vpcs, &v)
	}
}

// VPCs returns all VPCs, oldest first.
func (p *Portal) VPCs() []VPC {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]VPC, 0, len(p.vpcs))
	for _, v := range p.vpcs {
		out = append(out, *v)
	}
	return out
}

// listVPCs answers GET /vpcs. Names are not unique.
func (p *Portal) listVPCs(c *call) (answer, *refusal) {
	query := c.request.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []wireVPC{}
	for _, v := range p.vpcs {
		if v.Account == c.account && (!query.Has("name") || v.Name == query.Get("name")) {
			out = append(out, v.wire())
		}
	}
	return answer{status: http.StatusOK, body: p.opts.Shapes.list("vpcs", out)}, nil
}

// vpcBody is our choice: the specification does not show the body.
type vpcBody struct {
	Name string `json:"name" portal:"required"`
	CIDR string `json:"cidr"`
}

// createVPC answers POST /vpcs with a job whose result carries the VPC under vpc in all shapes: that much is
// documented (Network endpoints).
func (p *Portal) createVPC(c *call) (answer, *refusal) {
	var body vpcBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	if body.CIDR != "" {
		if _, err := parseCIDR(body.CIDR); err != nil {
			return answer{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startJob(c, jobSpec{kind: JobCreateVPC, takes: p.opts.Durations.VPC, work: func(ctx context.Context, takes time.Duration) (any, error) {
		if err := sleep(ctx, takes); err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		v := &VPC{ID: p.newID("vpc"), Account: c.account, Name: body.Name, CIDR: body.CIDR}
		p.vpcs = append(p.vpcs, v)
		p.record(LogEntry{Object: "vpc", ID: v.ID, Account: v.Account, To: "created", Detail: v.Name})
		return map[string]any{"vpc": v.wire()}, nil
	}}), nil
}

// vpcByID finds a VPC of the account. Callers hold mu.
func (p *Portal) vpcByID(account, id string) (*VPC, *refusal) {
	for _, v := range p.vpcs {
		if v.ID == id && v.Account == account {
			return v, nil
		}
	}
	return nil, invalid("vpcId", "there is no VPC %q in this account", id)
}
