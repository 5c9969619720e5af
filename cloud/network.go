// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"net/url"
)

// VPC is a virtual private cloud. The specification shows no field but id. The others are filled if the portal sends them.
type VPC struct {
	ID   string
	Name string
	CIDR string
	Raw  json.RawMessage // the record as the portal sent it
}

// VPCs lists the VPCs of that name, or all for an empty name.
func (c *Client) VPCs(ctx context.Context, name string) ([]VPC, error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	all, err := list(ctx, c, routeVPCs, query, "vpcs", func(r record) VPC {
		return VPC{ID: string(r.ID), Name: string(r.Name), CIDR: string(r.CIDR), Raw: r.raw}
	})
	// A filter by part of the name is no match.
	return filter(all, func(vpc VPC) bool { return name == "" || vpc.Name == "" || vpc.Name == name }), err
}

// CreateVPCRequest holds the parameters of a VPC. The specification does not show the body. An empty CIDR is not sent.
type CreateVPCRequest struct {
	Name string `json:"name"`
	CIDR string `json:"cidr,omitempty"`
}

// CreateVPC starts the creation of a VPC. Job.CreatedID returns its id when the job is done.
func (c *Client) CreateVPC(ctx context.Context, r CreateVPCRequest) (Job, error) {
	return c.startJob(ctx, routeCreateVPC, "", r)
}

// CreateNetworkRequest holds the one documented field of a network.
type CreateNetworkRequest struct {
	CIDR string `json:"cidr"` // such as 10.1.0.0/24: 251 usable addresses
}

// Created is a resource that exists at once (ID), or will when the Job has succeeded (Job.ID, then Job.CreatedID).
type Created struct {
	ID  string
	Job Job
}

// CreateNetwork creates a network whose id serves as networkId of a cluster. The specification does not show whether
// that is synchronous. Networks can be neither listed nor deleted: after an error that IsUnknownOutcome, calling it
// again may make a second one.
func (c *Client) CreateNetwork(ctx context.Context, r CreateNetworkRequest) (Created, error) {
	request, a, err := c.ask(ctx, routeCreateNetwork, "", r)
	if err != nil {
		return Created{}, err
	}
	if job := startedJob(request, a); job.ID != "" {
		c.note(gapNetwork, networkByJob)
		return Created{Job: job}, nil
	}
	id, _ := createdID(a.body, KindNetwork, "")
	if id == "" {
		return Created{}, unreadable(request, a, "neither id nor jobId")
	}
	c.note(gapNetwork, networkAtOnce)
	return Created{ID: id}, nil
}
