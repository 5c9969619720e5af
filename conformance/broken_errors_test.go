// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var brokenErrors = []broken{
	{name: "errors without requestId", tell: func(x *exchange) { delete(x.object("error"), "requestId") },
		noticed: []string{"errors/every refusal has the documented shape"}},
	{name: "errors without message", tell: func(x *exchange) { delete(x.object("error"), "message") },
		noticed: []string{"errors/every refusal has the documented shape"}},
	{name: "errors without code", tell: func(x *exchange) { delete(x.object("error"), "code") },
		noticed: []string{"errors/every refusal has the documented shape", "errors/INVALID_PARAMETER for a missing parameter", "gap/pairing of codes and statuses"}},
	{name: "errors in text", tell: func(x *exchange) {
		if x.status >= 400 {
			x.body = map[string]any{"error": "no"}
		}
	}, noticed: []string{"errors/every refusal has the documented shape", "status/500 has the documented shape", "status/503 has the documented shape"}},
	{name: "one requestId", tell: func(x *exchange) {
		if x.status >= 400 {
			x.object("error")["requestId"] = "one"
		}
	}, noticed: []string{"errors/requestId differs between requests"}},
	{name: "500 for bad payloads", tell: statuses(400, 500), noticed: []string{"status/400 for a bad payload"}},
	{name: "another code for parameters", tell: codes("INVALID_PARAMETER", "BAD"), noticed: []string{
		"errors/INVALID_PARAMETER for a missing parameter", "errors/INVALID_PARAMETER for a malformed parameter"}},
	{name: "400 for ids", tell: statuses(404, 400), noticed: []string{
		"errors/RESOURCE_NOT_FOUND for ids that do not exist", "errors/RESOURCE_NOT_FOUND for another account's ids"}},
	{name: "another code for ids", tell: codes("RESOURCE_NOT_FOUND", "GONE"), noticed: []string{
		"errors/RESOURCE_NOT_FOUND for ids that do not exist", "errors/RESOURCE_NOT_FOUND for another account's ids"}},
	{name: "one account for all", options: sameAccount("main"), noticed: []string{
		"errors/RESOURCE_NOT_FOUND for another account's ids", "limits/another account has its own"}},
	{name: "another code for busy", tell: codes("RESOURCE_BUSY", "OPERATION_NOT_ALLOWED"), noticed: []string{"errors/RESOURCE_BUSY for a locked cluster"}},
	{name: "423 for locked", tell: statuses(409, 423), noticed: []string{"status/409 for a locked resource"}},
	{name: "another code and status for states", tell: func(x *exchange) {
		statuses(409, 400)(x)
		codes("OPERATION_NOT_ALLOWED", "NO")(x)
	}, noticed: []string{"errors/OPERATION_NOT_ALLOWED for an action that the state forbids"}},
	{name: "another code for quotas", tell: codes("QUOTA_EXCEEDED", "TOO_MUCH"), noticed: []string{"errors/QUOTA_EXCEEDED beyond a quota"}},
	{name: "another code for capacity", tell: codes("INSUFFICIENT_CAPACITY", "FULL"), noticed: []string{"errors/INSUFFICIENT_CAPACITY of a full platform"}},
}

var brokenLimits = []broken{
	{name: "a burst of 40", options: func(o *emulator.Options) { o.RateLimit.Burst = 40 }, noticed: []string{"limits/a burst of 50"}},
	{name: "a burst of 60", options: func(o *emulator.Options) { o.RateLimit.Burst = 60 }, noticed: []string{"limits/a burst of 50"}},
	{name: "290 a minute", options: func(o *emulator.Options) { o.RateLimit.PerMinute = 290 },
		noticed: []string{"limits/300 requests a minute", "limits/429 carries X-RateLimit-Limit"}},
	{name: "310 a minute", options: func(o *emulator.Options) { o.RateLimit.PerMinute = 310 }, noticed: []string{"limits/300 requests a minute"}},
	{name: "503 beyond the limit", tell: statuses(429, 503), noticed: []string{"limits/429 with RATE_LIMITED beyond the limit"}},
	{name: "another code beyond the limit", tell: codes("RATE_LIMITED", "SLOW"), noticed: []string{"limits/429 with RATE_LIMITED beyond the limit"}},
	{name: "no limit", tell: statuses(429, 200), noticed: []string{"limits/429 with RATE_LIMITED beyond the limit"}},
	{name: "no headers", tell: func(x *exchange) {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
			x.header.Del(name)
		}
	}, noticed: []string{"limits/429 carries X-RateLimit-Limit", "limits/429 carries X-RateLimit-Remaining",
		"limits/429 carries X-RateLimit-Reset", "limits/429 carries Retry-After"}},
	{name: "reset in seconds from now", tell: func(x *exchange) { x.header.Set("X-RateLimit-Reset", "10") },
		noticed: []string{"limits/429 carries X-RateLimit-Reset"}},
	{name: "what remains in words", tell: func(x *exchange) { x.header.Set("X-RateLimit-Remaining", "nothing") },
		noticed: []string{"limits/429 carries X-RateLimit-Remaining", "gap/X-RateLimit-Remaining"}},
	{name: "come back at once", tell: func(x *exchange) {
		if x.status == http.StatusTooManyRequests {
			x.header.Set("Retry-After", "0")
		}
	}, noticed: []string{"limits/Retry-After is enough"}},
	{name: "a limit for each user", options: ownAccounts, noticed: []string{"limits/all users and endpoints of an account share the limit"}},
}

func sameAccount(name string) func(*emulator.Options) {
	return func(o *emulator.Options) {
		for i := range o.Users {
			o.Users[i].Account = name
		}
	}
}

func ownAccounts(o *emulator.Options) {
	for i := range o.Users {
		o.Users[i].Account = o.Users[i].Email
	}
}

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
