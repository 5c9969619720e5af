// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// route is one endpoint of the specification, with what the chain must know about it.
type route struct {
	method   string
	template string // with {name} segments, as the specification writes it
	class    ratelimit.Class
	mutating bool // a lost answer leaves the outcome unknown
	access   access
}

// access is the kind of token that a route takes.
type access int

const (
	withToken access = iota // full-access token, which auth puts on
	noToken                 // none
	ownToken                // the call brings its own: the pre-MFA token
)

// The endpoints, in the order of the specification.
var (
	routeLogin         = route{"POST", "/login", ratelimit.Login, false, noToken}
	routeSendOTP       = route{"POST", "/mfa/send-otp", ratelimit.Login, false, ownToken}
	routeVerifyOTP     = route{"POST", "/mfa/verify-otp", ratelimit.Login, false, ownToken}
	routeResetPassword = route{"POST", "/reset-password", ratelimit.Mutation, true, noToken}
	routeSetPassword   = route{"POST", "/reset-password/{RESET_PASSWORD_TOKEN}", ratelimit.Mutation, true, noToken}
	routeDisableMFA    = route{"POST", "/admin/mfa/disable/{idp}", ratelimit.Mutation, true, withToken}

	routeVPCs          = route{"GET", "/vpcs", ratelimit.Read, false, withToken}
	routeCreateVPC     = route{"POST", "/vpcs", ratelimit.Creation, true, withToken}
	routeCreateNetwork = route{"POST", "/networks", ratelimit.Creation, true, withToken}

	routeVersions       = route{"GET", "/kubernetes-versions", ratelimit.Read, false, withToken}
	routeCreateCluster  = route{"POST", "/kubernetes-clusters", ratelimit.Creation, true, withToken}
	routeFindClusters   = route{"GET", "/kubernetes-clusters", ratelimit.Read, false, withToken} // not in the specification
	routeKubeconfig     = route{"GET", "/kubernetes-clusters/{cluster_id}/config", ratelimit.Read, false, withToken}
	routeScaleCluster   = route{"POST", "/kubernetes-clusters/{cluster_id}/scale", ratelimit.Mutation, true, withToken}
	routeUpgradeCluster = route{"POST", "/kubernetes-clusters/{cluster_id}/upgrade", ratelimit.Mutation, true, withToken}
	routeDeleteCluster  = route{"DELETE", "/kubernetes-clusters/{cluster_id}", ratelimit.Mutation, true, withToken}

	routeJob          = route{"GET", "/jobs/{job_id}", ratelimit.Poll, false, withToken}
	routeInstances    = route{"GET", "/instances", ratelimit.Read, false, withToken}
	routeInstance     = route{"GET", "/instances/{instance_id}", ratelimit.Read, false, withToken}
	routeDeleteVolume = route{"DELETE", "/volumes/{volume_id}", ratelimit.Mutation, true, withToken}
)

// String returns the name of the route in errors and metrics. It never contains an id.
func (r route) String() string { return r.method + " " + r.template }

// undocumented reports whether the specification does not know the route. Its answers prove nothing about the token.
func (r route) undocumented() bool { return r == routeFindClusters }

// call is one request on its way down the chain.
type call struct {
	route  route
	path   string // below the base URL, escaped
	query  url.Values
	body   []byte   // JSON, or nil
	hidden []string // secrets in path and body

	token  secret        // the bearer token, once auth has found one
	waited time.Duration // in the limiter's queue
	sent   bool          // the last attempt may have reached the portal
}

// newCall makes a call of the route. The segment fills the route's one {segment}, if it has one. Parameters are sent as the query if
// they are url.Values, and else as a JSON body. Nil sends none.
func newCall(r route, segment string, parameters any) (*call, error) {
	c := &call{route: r, path: r.template}
	if open, end := strings.IndexByte(r.template, '{'), strings.IndexByte(r.template, '}'); open >= 0 {
		if segment == "" || segment == "." || segment == ".." {
			return nil, invalidInput(r.template[open+1:end], "must be an id") // dots would address another endpoint
		}
		c.path = r.template[:open] + url.PathEscape(segment) + r.template[end+1:]
	}
	switch p := parameters.(type) {
	case nil:
	case url.Values:
		c.query = p
	default:
		body, err := json.Marshal(p)
		if err != nil {
			return nil, invalidInput("", "the request cannot be written as JSON")
		}
		c.body = body
	}
	return c, nil
}

// secrets are the texts that no error of this call may carry.
func (c *call) secrets() []string {
	return append([]string{c.token.reveal()}, c.hidden...)
}
