// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// brokenGaps are portals that fill a gap in the specification in a way that the provider does not understand.
var brokenGaps = []broken{
	{name: "404 for a wrong password", tell: func(x *exchange) {
		if x.is("POST", "/login") && x.status == http.StatusUnauthorized {
			x.status = http.StatusNotFound
		}
	}, noticed: []string{"gap/refusal of a login"}},
	{name: "two JWTs from verify-otp", tell: onSuccess("POST", "/mfa/verify-otp", func(x *exchange) {
		x.body = map[string]any{"a": x.object()["token"], "b": x.token}
	}), noticed: []string{"gap/verify-otp token"}},
	{name: "two ids in a result", tell: onSuccess("GET", "/jobs/", func(x *exchange) {
		if x.object()["result"] != nil {
			x.object()["result"] = map[string]any{"a": map[string]any{"id": "1"}, "b": map[string]any{"id": "2"}}
		}
	}), noticed: []string{"gap/created id"}},
	{name: "201 for a volume", tell: onSuccess("DELETE", "/volumes/", func(x *exchange) { x.status = http.StatusCreated }),
		noticed: []string{"gap/deletion of a volume"}},
	{name: "two lists of instances", tell: onSuccess("GET", "/instances", func(x *exchange) {
		x.body = map[string]any{"running": []any{}, "stopped": []any{}}
	}), noticed: []string{"gap/list"}},
	{name: "Retry-After in words", tell: func(x *exchange) {
		if x.status == http.StatusTooManyRequests {
			x.header.Set("Retry-After", "soon")
		}
	}, noticed: []string{"gap/Retry-After"}},
	{name: "a limit in words", tell: func(x *exchange) { x.header.Set("X-RateLimit-Limit", "many") },
		noticed: []string{"gap/rate limit headers"}},
}

// brokenClients are clients that violate a statement, either themselves or because of the connection between them and the portal.
var brokenClients = []broken{
	{name: "client that speaks HTTP", kit: func(k *clientKit) {
		k.open = func(c cloud.Config) (*cloud.Client, error) {
			c.BaseURL = strings.Replace(c.BaseURL, "http://", "https://", 1)
			return cloud.New(c)
		}
	}, noticed: []string{"client/talks HTTPS only"}},
	{name: "client that refreshes every hour", options: func(o *emulator.Options) { o.TokenLifetime = time.Hour },
		noticed: []string{"client/refreshes the token after 7 hours"}},
	{name: "client that polls every second", kit: func(k *clientKit) { k.pollAfter = time.Second },
		noticed: []string{"client/polls about every 5 seconds"}},
	{name: "client that never stops", kit: func(k *clientKit) { k.done = func(cloud.JobStatus) bool { return false } },
		noticed: []string{"client/a finished job is done"}},
	{name: "client that waits forever", kit: func(k *clientKit) { k.stuck = func(time.Time) bool { return false } },
		noticed: []string{"client/a job is stuck after 30 minutes without progress"}},
	{name: "client that takes 503 for 404", tell: statuses(503, 404), noticed: []string{"client/500 and 503 ask to try again"}},
	{name: "client that does not know capacity", tell: codes("INSUFFICIENT_CAPACITY", "FULL"),
		noticed: []string{"client/a full platform asks for time or another zone"}},
	{name: "client that knows unknown codes", tell: codes("BRAND_NEW", "RESOURCE_BUSY"), noticed: []string{"client/an unknown code falls back to its status"}},
	{name: "client that mixes codes up", tell: codes("RESOURCE_BUSY", "QUOTA_EXCEEDED"), noticed: []string{
		"client/the code decides whatever the status", "client/decides by the code and not by the message"}},
	{name: "client that reads no headers", tell: func(x *exchange) { x.header.Del("X-RateLimit-Limit") }, noticed: []string{"client/learns a higher tier"}},
	{name: "client that makes answers up", ask: func(x *exchange) {
		if x.is("GET", "/vpcs") {
			x.status, x.body = http.StatusOK, map[string]any{"vpcs": []any{}}
		}
		if x.is("GET", "/jobs/") {
			x.status, x.body = http.StatusNotFound, map[string]any{"error": map[string]any{"code": "RESOURCE_NOT_FOUND"}}
		}
	}, noticed: []string{"client/waits 60 seconds for an answer", "client/waits 30 seconds for a poll"}},
	{name: "client that comes back at once", tell: func(x *exchange) { x.header.Set("Retry-After", "1") },
		noticed: []string{"client/sends nothing before Retry-After is over"}},
	{name: "client that ignores the limit", tell: statuses(429, 200), noticed: []string{"client/backs off exponentially with jitter"}},
	{name: "client that finds nothing", tell: eachRecord("vpcs", "name", "another"), noticed: []string{
		"client/finds a VPC by its name", "client/a lookup before a creation makes no second VPC"}},
}
