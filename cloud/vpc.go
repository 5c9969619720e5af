// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"net/url"
)

// VPC is a virtual private cloud. The specification shows no field but id; the others are filled when they come.
type VPC struct {
	ID   string
	Name string
	CIDR string
	Raw  json.RawMessage // the record as the portal sent it
}

// VPCs lists the VPCs of that name, or all for an empty name.
func (c *Client) VPCs(ctx context.Context, name string) ([]VPC, error) {
	request, err := newCall(routeVPCs, "")
	if err != nil {
		return nil, err
	}
	if name != "" {
		request.query = url.Values{"name": {name}}
	}
	a, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	all, err := decodeList(request, a, "vpcs", readVPC)
	if err != nil {
		return nil, err
	}
	var found []VPC
	for _, vpc := range all {
		if name == "" || vpc.Name == "" || vpc.Name == name { // a filter by part of the name is no match
			found = append(found, vpc)
		}
	}
	return found, nil
}

func readVPC(raw json.RawMessage) (VPC, bool) {
	var v struct {
		ID   text `json:"id"`
		Name text `json:"name"`
		CIDR text `json:"cidr"`
	}
	err := json.Unmarshal(raw, &v)
	return VPC{ID: string(v.ID), Name: string(v.Name), CIDR: string(v.CIDR), Raw: raw}, err == nil && v.ID != ""
}

// CreateVPCRequest holds what a VPC is made of. The specification does not show the body; an empty CIDR is not sent.
type CreateVPCRequest struct {
	Name string `json:"name"`
	CIDR string `json:"cidr,omitempty"`
}

// CreateVPC starts the creation of a VPC; Job.CreatedID is its id in the end.
func (c *Client) CreateVPC(ctx context.Context, r CreateVPCRequest) (Job, error) {
	return c.start(ctx, routeCreateVPC, "", r)
}
