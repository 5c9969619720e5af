// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"

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
