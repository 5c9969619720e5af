// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"slices"
)

var networkChecks = []check{
	{name: "endpoints/GET vpcs", run: func(p *probe) { p.me().get("/vpcs").records("vpcs") }},
	{name: "vpcs/filter by name", run: filterVPCs},
	{name: "endpoints/POST vpcs", run: func(p *probe) {
		id := p.vpc().id
		if all := ids(p.me().get("/vpcs").records("vpcs")); !slices.Contains(all, id) {
			p.Errorf("%s is not among the VPCs %v", id, all)
		}
	}},
	{name: "endpoints/POST networks", run: func(p *probe) { p.newNetwork(p.CIDR) }},
	{name: "status/201 carries the id", run: func(p *probe) {
		p.mayCreate()
		a := p.me().making("network", p.CIDR, p.me().start("POST", "/networks", object("cidr", p.CIDR)))
		if a.status == http.StatusAccepted {
			p.skip("this portal creates networks with 202, and nothing else answers 201")
		}
		a.createdID(a.want(http.StatusCreated).body, "network", "")
	}},
	{name: "networks/cidr is required", run: func(p *probe) {
		p.mayCreate()
		p.me().making("network", "", p.me().post("/networks", `{}`)).refused("INVALID_PARAMETER")
	}},
	{name: "networks/cidr is in CIDR notation", run: func(p *probe) {
		p.mayCreate()
		for _, cidr := range []any{"", "10.1.0.0", "10.1.0.0/33", "ten", 10, nil} {
			p.me().making("network", fmt.Sprint(cidr), p.me().post("/networks", object("cidr", cidr))).refused("INVALID_PARAMETER")
		}
	}},
}

// filterVPCs checks that a filter returns a part of all VPCs, and nothing for an unused name.
func filterVPCs(p *probe) {
	if p.VPC == "" {
		p.skip("needs the name of a VPC, --vpc")
	}
	all := ids(p.me().get("/vpcs").records("vpcs"))
	named := ids(p.me().get("/vpcs?name=" + p.VPC).records("vpcs"))
	if len(named) == 0 {
		p.Errorf("the portal has no VPC %s", p.VPC)
	}
	for _, id := range named {
		if !slices.Contains(all, id) {
			p.Errorf("VPC %s is in the filtered list only", id)
		}
	}
	if rest := p.me().get("/vpcs?name=" + p.name()).records("vpcs"); len(rest) != 0 {
		p.Errorf("the filter returned %d VPCs for an unused name", len(rest))
	}
}

func ids(records []any) []string {
	var out []string
	for _, record := range records {
		id, _ := at(record, "id").(string)
		out = append(out, id)
	}
	return out
}
