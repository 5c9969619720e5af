// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"net/http"
	"strings"
)

// access is the token that a caller needs.
type access int

const (
	open          access = iota // nothing
	preMFA                      // a pre-MFA token
	full                        // a full-access token
	administrator               // a full-access token of an Administrator
)

// route is one endpoint of the specification.
type route struct {
	method  string
	pattern string // segments in braces are parameters
	access  access
	job     JobKind  // that it may start
	body    bool     // it takes a JSON body
	query   []string // the query parameters it knows
	serve   func(*call) (answer, *refusal)
}

// endpoints is the specification's list (Endpoints), top to bottom.
func (p *Portal) endpoints() []route {
	routes := []route{
		{method: http.MethodPost, pattern: "/login", body: true, serve: p.login},
		{method: http.MethodPost, pattern: "/mfa/send-otp", access: preMFA, serve: p.sendOTP},
		{method: http.MethodPost, pattern: "/mfa/verify-otp", access: preMFA, body: true, serve: p.verifyOTP},
		{method: http.MethodPost, pattern: "/reset-password", body: true, serve: p.requestReset},
		{method: http.MethodPost, pattern: "/reset-password/{token}", body: true, serve: p.completeReset},
		{method: http.MethodPost, pattern: "/admin/mfa/disable/{idp}", access: administrator, serve: p.disableMFA},

		{method: http.MethodGet, pattern: "/vpcs", access: full, query: []string{"name"}, serve: p.listVPCs},
		{method: http.MethodPost, pattern: "/vpcs", access: full, job: JobCreateVPC, body: true, serve: p.createVPC},
		{method: http.MethodPost, pattern: "/networks", access: full, job: JobCreateNetwork, body: true, serve: p.createNetwork},

		{method: http.MethodGet, pattern: "/kubernetes-versions", access: full, serve: p.listVersions},
		{method: http.MethodPost, pattern: "/kubernetes-clusters", access: full, job: JobCreateCluster, body: true, serve: p.createCluster},
		{method: http.MethodGet, pattern: "/kubernetes-clusters/{cluster_id}/config", access: full, serve: p.clusterConfig},
		{method: http.MethodPost, pattern: "/kubernetes-clusters/{cluster_id}/scale", access: full, job: JobScaleCluster, body: true, serve: p.scaleCluster},
		{method: http.MethodPost, pattern: "/kubernetes-clusters/{cluster_id}/upgrade", access: full, job: JobUpgradeCluster, body: true, serve: p.upgradeCluster},
		{method: http.MethodDelete, pattern: "/kubernetes-clusters/{cluster_id}", access: full, job: JobDeleteCluster, serve: p.deleteCluster},

		{method: http.MethodGet, pattern: "/jobs/{job_id}", access: full, serve: p.getJob},
		{method: http.MethodGet, pattern: "/instances", access: full, serve: p.listInstances},
		{method: http.MethodGet, pattern: "/instances/{instance_id}", access: full, serve: p.getInstance},
		{method: http.MethodDelete, pattern: "/volumes/{volume_id}", access: full, job: JobDeleteVolume, serve: p.deleteVolume},
	}
	if lookup, answered := p.lookupRoute(); answered {
		routes = append(routes, lookup)
	}
	return routes
}

// find returns the endpoint of a request. An unknown path is 404, a known one with another method 405.
func (p *Portal) find(method, path string) (*route, map[string]string, *refusal) {
	path, ok := strings.CutPrefix(path, p.opts.BasePath)
	var known []string
	for i := range p.routes {
		params, match := matchPath(p.routes[i].pattern, path)
		if !ok || !match {
			continue
		}
		known = append(known, p.routes[i].method)
		if p.routes[i].method == method {
			return &p.routes[i], params, nil
		}
	}
	unknown := &refusal{code: CodeResourceNotFound, message: "the portal has no endpoint at this path", violation: true}
	if len(known) > 0 {
		unknown = &refusal{code: CodeOperationNotAllowed, message: "the endpoint does not know method " + method,
			status: http.StatusMethodNotAllowed, violation: true, allow: strings.Join(known, ", ")}
	}
	return nil, nil, unknown
}

// matchPath compares a path with a pattern and returns the parameters, which are never empty.
func matchPath(pattern, path string) (map[string]string, bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	params := map[string]string{}
	for i, segment := range want {
		name, isParam := strings.CutPrefix(segment, "{")
		switch {
		case isParam && have[i] != "":
			params[strings.TrimSuffix(name, "}")] = have[i]
		case segment != have[i]:
			return nil, false
		}
	}
	return params, true
}
