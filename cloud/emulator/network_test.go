// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestCIDR checks that networks must be IPv4 in CIDR notation with room for a node, and that VPCs need a name.
func TestCIDR(t *testing.T) {
	p := newPortal(t, emulator.Options{VPCs: []emulator.VPC{{ID: "vpc-1", Name: "small", CIDR: "10.0.0.0/16"}}})
	c := login(t, p)
	for _, test := range []struct {
		body   string
		status int
		field  string
	}{
		{`{"cidr":"10.0.0.0/24"}`, 201, ""},
		{`{"cidr":"10.0.0.0/29"}`, 201, ""},
		{`{"cidr":"10.0.0.0/30"}`, 400, "cidr"},
		{`{"cidr":"10.0.0.1/24"}`, 400, "cidr"},
		{`{"cidr":"fd00::/64"}`, 400, "cidr"},
		{`{"cidr":"10.0.2.0/24","vpcId":"vpc-1"}`, 201, ""},
		{`{"cidr":"10.2.0.0/24","vpcId":"vpc-1"}`, 422, "cidr"},
		{`{"cidr":"10.0.0.0/8","vpcId":"vpc-1"}`, 422, "cidr"},
		{`{"cidr":"10.0.2.0/24","vpcId":"vpc-2"}`, 400, "vpcId"},
	} {
		r := c.post("/networks", test.body)
		if test.status == 201 {
			r.want(201).text("network", "id")
			continue
		}
		r.refused(test.status, emulator.CodeInvalidParameter).has(test.field, "error", "field")
	}
	c.post("/vpcs", `{"name":"mine","cidr":"10.0.0.1/8"}`).refused(400, emulator.CodeInvalidParameter).has("cidr", "error", "field")
	c.post("/vpcs", `{}`).refused(400, emulator.CodeInvalidParameter).has("name", "error", "field")
	if n := len(p.Networks()); n != 3 {
		t.Errorf("%d networks", n)
	}
}

// TestNetworkRoom checks that a /24 has 251 usable addresses and a /29 has three (Kubernetes endpoints 4, Network).
func TestNetworkRoom(t *testing.T) {
	bubble(t, emulator.Options{MaxWorkers: 300}, func(_ *testing.T, _ *emulator.Portal, c *caller) {
		network := c.post("/networks", `{"cidr":"10.1.0.0/24"}`).want(201).text("network", "id")
		request := func(size int) string { return c.newCluster(size).with("networkId", network).String() }
		c.post("/kubernetes-clusters", request(251)).refused(422, emulator.CodeInvalidParameter).has("networkId", "error", "field")
		id := c.create(c.newCluster(240).with("networkId", network))
		c.post("/kubernetes-clusters", request(10)).refused(422, emulator.CodeInvalidParameter)
		c.create(c.newCluster(1).with("networkId", network))
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":249}`).refused(422, emulator.CodeInvalidParameter).has("size", "error", "field")
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":248}`).want(202)
		c.post("/kubernetes-clusters", request(0)).refused(422, emulator.CodeInvalidParameter) // addresses of running creations count
	})
}
