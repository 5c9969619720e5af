// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func brokenPortals() []broken {
	return slices.Concat(brokenService, brokenAccess, brokenResources, brokenJobs, brokenErrors, brokenLimits, brokenGaps, brokenClients)
}

var brokenService = []broken{
	{name: "other content type", tell: func(x *exchange) { x.header.Set("Content-Type", "text/html") },
		noticed: []string{"service/every answer is JSON"}},
	{name: "plain HTTP is served", ask: func(*exchange) {}, noticed: []string{"service/plain HTTP is rejected"}},
	{name: "reads start jobs", tell: onSuccess("GET", "", func(x *exchange) { x.object()["jobId"] = "job-1" }),
		noticed: []string{"service/reads and logins are synchronous"}},
	{name: "reads are accepted", tell: onSuccess("GET", "", func(x *exchange) { x.status = http.StatusAccepted }),
		noticed: []string{"status/200 for a read", "authentication/the token of a login opens protected endpoints"}},
	{name: "versions under another key", tell: renamed("/kubernetes-versions", "versions", "items"),
		noticed: []string{"endpoints/GET kubernetes-versions", "gap/further fields"}},
	{name: "versions without id", tell: eachRecord("versions", "id", nil), noticed: []string{"versions/each has an id"}},
	{name: "versions in words", tell: eachRecord("versions", "semanticVersion", "newest"),
		noticed: []string{"versions/each has a semantic version", "gap/version text"}},
	{name: "versions without state", tell: eachRecord("versions", "state", nil), noticed: []string{"versions/each has a state", "gap/version state"}},
	{name: "old versions", options: func(o *emulator.Options) { o.Versions = []emulator.Version{{SemanticVersion: "v1.26.9"}} },
		noticed: []string{"versions/each is 1.27 or later"}},
}

var brokenAccess = []broken{
	{name: "login without user", tell: onSuccess("POST", "/login", func(x *exchange) { delete(x.object(), "user") }),
		noticed: []string{"endpoints/POST login"}},
	{name: "opaque tokens", tell: onSuccess("POST", "/login", func(x *exchange) { x.object()["token"] = "opaque" }),
		noticed: []string{"login/token is a JWT", "gap/token lifetime"}},
	{name: "user ids change", tell: onSuccess("POST", "/login", func(x *exchange) {
		x.seen.count++
		x.object("user")["id"] = fmt.Sprint(x.seen.count)
	}), noticed: []string{"login/user.id is the user's"}},
	{name: "another e-mail", tell: onSuccess("POST", "/login", func(x *exchange) { x.object("user")["email"] = "x@portal.example" }),
		noticed: []string{"login/user.email is the user's"}},
	{name: "another role", tell: onSuccess("POST", "/login", func(x *exchange) { x.object("user")["role"] = "Root" }),
		noticed: []string{"login/user.role of an Administrator"}},
	{name: "mfaRequired always", tell: onSuccess("POST", "/login", func(x *exchange) { x.object()["mfaRequired"] = true }),
		noticed: []string{"login/mfaRequired tells whether there is MFA"}},
	{name: "mfaRequired never", tell: onSuccess("POST", "/login", func(x *exchange) { x.object()["mfaRequired"] = false }),
		noticed: []string{"authentication/MFA makes login say mfaRequired"}},
	{name: "any password", ask: func(x *exchange) {
		if password, ok := x.sent["password"].(string); ok {
			x.sent["password"] = strings.TrimSuffix(password, "!")
		}
	}, noticed: []string{"login/a wrong password gives no token"}},
	{name: "no send-otp", tell: onSuccess("POST", "/mfa/send-otp", func(x *exchange) { x.status = http.StatusNotFound }),
		noticed: []string{"endpoints/POST mfa send-otp", "gap/answer of send-otp"}},
	{name: "verify-otp without token", tell: onSuccess("POST", "/mfa/verify-otp", func(x *exchange) { x.body = map[string]any{} }),
		noticed: []string{"endpoints/POST mfa verify-otp"}},
	{name: "verify-otp gives the old token", tell: onSuccess("POST", "/mfa/verify-otp", func(x *exchange) { x.object()["token"] = x.token }),
		noticed: []string{"authentication/MFA from the pre-MFA token to full access"}},
	{name: "any code", tell: func(x *exchange) {
		if x.is("POST", "/mfa/verify-otp") {
			x.status, x.body = http.StatusOK, map[string]any{"token": x.token}
		}
	}, noticed: []string{"authentication/MFA with a wrong code"}},
	{name: "MFA stays on", ask: instead("/admin/mfa/disable/"), noticed: []string{"endpoints/POST admin mfa disable"}},
	{name: "no mail", ask: instead("/reset-password"), noticed: []string{"endpoints/POST reset-password"}},
	{name: "no new password", ask: instead("/reset-password/"), noticed: []string{"endpoints/POST reset-password token"}},
	{name: "any token", ask: func(x *exchange) { x.token = x.seen.token },
		noticed: []string{"errors/INVALID_TOKEN for a wrongly signed token"}},
	{name: "pre-MFA tokens suffice", tell: func(x *exchange) {
		if at(x.body, "error", "code") == "MFA_REQUIRED" {
			x.status = http.StatusOK
		}
	}, noticed: []string{"authentication/a pre-MFA token opens no protected endpoint"}},
	{name: "another code for pre-MFA tokens", tell: codes("MFA_REQUIRED", "INVALID_TOKEN"), noticed: []string{"errors/MFA_REQUIRED for a pre-MFA token"}},
	{name: "403 for no token", tell: statuses(401, 403), noticed: []string{
		"errors/INVALID_TOKEN for a missing token", "authentication/every protected endpoint asks for a token"}},
	{name: "tokens for 9 hours", options: func(o *emulator.Options) { o.TokenLifetime = 9 * time.Hour },
		noticed: []string{"errors/INVALID_TOKEN for an expired token"}},
	{name: "tokens for 7 hours", options: func(o *emulator.Options) { o.TokenLifetime = 7 * time.Hour },
		noticed: []string{"authentication/a token lives 8 hours"}},
	{name: "one login only", tell: onSuccess("POST", "/login", func(x *exchange) {
		if x.seen.count++; x.seen.count > 1 {
			x.status = http.StatusForbidden
		}
	}), noticed: []string{"authentication/after expiry another login helps"}},
	{name: "everybody may do everything", options: func(o *emulator.Options) {
		for i := range o.Users {
			o.Users[i].Role = emulator.RoleAdministrator
		}
	}, noticed: []string{"status/403 for an action the user may not perform"}},
}

// onSuccess changes the answers of successful calls.
func onSuccess(method, path string, change func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if x.is(method, path) && x.status < 300 {
			change(x)
		}
	}
}

// instead answers a request without forwarding it to the portal.
func instead(path string) func(*exchange) {
	return func(x *exchange) {
		if x.is("POST", path) {
			x.status, x.body = http.StatusOK, map[string]any{}
		}
	}
}

// renamed renames a field of the answer.
func renamed(path, from, to string) func(*exchange) {
	return onSuccess("GET", path, func(x *exchange) {
		x.object()[to] = x.object()[from]
		delete(x.object(), from)
	})
}

// eachRecord changes a field of each record in a list. It removes the field if value is nil.
func eachRecord(key, field string, value any) func(*exchange) {
	return func(x *exchange) {
		list, _ := at(x.body, key).([]any)
		for _, record := range list {
			if object, ok := record.(map[string]any); ok {
				object[field] = value
			}
		}
	}
}

func codes(from, to string) func(*exchange) {
	return func(x *exchange) {
		if at(x.body, "error", "code") == from {
			x.object("error")["code"] = to
		}
	}
}

func statuses(from, to int) func(*exchange) {
	return func(x *exchange) {
		if x.status == from {
			x.status = to
		}
	}
}
