// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// gapChecks find out how the portal fills the gaps of the specification, and fail if the provider does not understand its choice.
var gapChecks = []check{
	{name: "gap/verify-otp token", run: otpToken},
	{name: "gap/answer of send-otp", run: func(p *probe) {
		a := p.preMFA().post("/mfa/send-otp", "").want(http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent)
		p.note("answer of send-otp", fmt.Sprintf("any success (%d)", a.status))
	}},
	{name: "gap/refusal of a login", run: func(p *probe) {
		u := *p.who(anyone)
		u.password = conceal(u.password.reveal() + "!")
		a := p.login(&u)
		switch code := a.at("error", "code"); {
		case a.status < 400, a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed, code == "RESOURCE_NOT_FOUND":
			p.Errorf("a wrong password is answered with status %d", a.status)
		case a.status == http.StatusUnauthorized:
			p.note("refusal of a login", fmt.Sprintf("401 of any body (%v)", code))
		default:
			p.note("refusal of a login", fmt.Sprintf("any code in the documented body (%d %s)", a.status, a.refused().text("error", "code")))
		}
	}},
	{name: "gap/token lifetime", run: func(p *probe) {
		var claims jwt.RegisteredClaims
		if _, _, err := jwt.NewParser().ParseUnverified(p.enter(p.who(anyone)), &claims); err != nil {
			p.Fatal("the token is not a JWT")
		}
		shape := "in the token"
		if claims.ExpiresAt == nil {
			shape = "not in the token"
		}
		p.note("token lifetime", shape)
	}},
	{name: "gap/pairing of codes and statuses", run: pairing},
	{name: "gap/rate limit headers", run: func(p *probe) {
		a := p.me().get("/kubernetes-versions").want(http.StatusOK)
		shape := "with 429 only"
		if limit := a.header.Get("X-RateLimit-Limit"); limit != "" {
			shape = "with every answer"
			if n, err := strconv.Atoi(limit); err != nil || n < 1 {
				p.Errorf("X-RateLimit-Limit is %q", limit)
			}
		}
		p.note("rate limit headers", shape)
	}},
	{name: "gap/X-RateLimit-Remaining", run: func(p *probe) {
		a := p.me().get("/kubernetes-versions").want(http.StatusOK)
		if a.header.Get("X-RateLimit-Remaining") == "" {
			p.skip("the portal says what remains with a 429 only")
		}
		shape := "of the burst"
		if left := a.number("X-RateLimit-Remaining"); left > p.Tier.Burst {
			shape = fmt.Sprintf("of a longer time (%d)", left)
		}
		p.note("X-RateLimit-Remaining", shape)
	}},
	{name: "gap/Retry-After", run: func(p *probe) {
		value := p.refusedByLimit().header.Get("Retry-After")
		if _, err := strconv.Atoi(value); err == nil {
			p.note("Retry-After", "seconds")
			return
		}
		if _, err := http.ParseTime(value); err != nil {
			p.Errorf("Retry-After is %q", value)
		}
		p.note("Retry-After", "date")
	}},
	{name: "gap/list", run: instanceList},
	{name: "gap/created id", run: createdIDShape},
	{name: "gap/network creation", run: func(p *probe) { p.newNetwork(p.CIDR) }},
	{name: "gap/job error", run: jobErrorShape},
	{name: "gap/lookup of clusters by name", run: func(p *probe) {
		a := p.me().get("/kubernetes-clusters?name=" + p.name())
		shape := fmt.Sprintf("not answered (status %d)", a.status)
		if len(lists(a.body)) == 1 && a.status == http.StatusOK {
			shape = "answered"
		}
		p.note("lookup of clusters by name", shape)
	}},
	{name: "gap/deletion of a volume", run: func(p *probe) {
		p.hidden("deletes somebody's data")
		a := p.me().delete("/volumes/"+p.books.AddVolume(emulator.Volume{Account: "main"})).want(http.StatusOK, http.StatusNoContent, http.StatusAccepted)
		if a.status != http.StatusAccepted {
			p.note("deletion of a volume", "at once")
			return
		}
		p.me().follow(a).succeeded()
		p.note("deletion of a volume", "by a job")
	}},
	{name: "gap/version text", run: versionText},
	{name: "gap/version state", run: func(p *probe) {
		seen := map[string]bool{}
		for _, version := range p.versions() {
			state, ok := at(version, "state").(string)
			if !ok {
				p.Errorf("version %v: state is %v", at(version, "id"), at(version, "state"))
			}
			seen[state] = true
		}
		p.note("version state", "any word ("+strings.Join(slices.Sorted(maps.Keys(seen)), ", ")+")")
	}},
	{name: "gap/further fields", run: func(p *probe) {
		known := []string{"id", "semanticVersion", "state"}
		extra := map[string]bool{}
		for _, version := range p.versions() {
			object, _ := version.(map[string]any)
			for name := range object {
				extra[name] = !slices.Contains(known, name)
			}
		}
		maps.DeleteFunc(extra, func(_ string, more bool) bool { return !more })
		p.note("further fields", fmt.Sprintf("any (%d more of a version)", len(extra)))
	}},
}

// note records the portal's shape for a gap.
func (p *probe) note(gap, shape string) { p.shapes[gap] = shape }

// otpToken checks the field of the token. The client prefers fields with usual names. Under any other name the token must be the only JWT
// of the answer.
func otpToken(p *probe) {
	u, pending := p.who(withMFA), p.preMFA()
	pending.post("/mfa/send-otp", "").want(http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent)
	a := pending.post("/mfa/verify-otp", object("otp", p.code(u))).want(http.StatusOK, http.StatusCreated)
	for _, name := range []string{"token", "accessToken", "access_token", "jwt"} {
		if text, _ := a.at(name).(string); isJWT(text) {
			p.note(gapOTPToken, "under a usual name ("+name+")")
			return
		}
	}
	token := tokenIn(a)
	shape := "in a nested object"
	for name, value := range a.body.(map[string]any) {
		if value == token {
			shape = "under another name (" + name + ")"
		}
	}
	p.note(gapOTPToken, shape)
}

// pairing collects the status of each code.
func pairing(p *probe) {
	_, refusals := p.samples()
	seen := map[string]bool{}
	for _, a := range refusals {
		seen[fmt.Sprintf("%s %d", a.refused().text("error", "code"), a.status)] = true
	}
	p.note("pairing of codes and statuses", "a listed code with any status of an error ("+strings.Join(slices.Sorted(maps.Keys(seen)), ", ")+")")
}

// lists returns the lists at the top of an answer by their keys. The key of an answer that is a list is "".
func lists(body any) map[string][]any {
	found := map[string][]any{}
	if bare, ok := body.([]any); ok {
		found[""] = bare
	}
	object, _ := body.(map[string]any)
	for name, value := range object {
		if list, ok := value.([]any); ok {
			found[name] = list
		}
	}
	return found
}

func instanceList(p *probe) {
	a := p.me().get("/instances").want(http.StatusOK)
	found := lists(a.body)
	_, keyed := found["instances"]
	_, bare := found[""]
	switch {
	case keyed:
		p.note("list", "under its key")
	case len(found) != 1:
		p.Errorf("%s: %d lists: %s", a.what, len(found), a.shown())
	case bare:
		p.note("list", "bare")
	default:
		p.note("list", fmt.Sprintf("under another key (%s)", slices.Collect(maps.Keys(found))[0]))
	}
}

// createdIDShape finds the place of the id in the result of a cluster's creation.
func createdIDShape(p *probe) {
	c := p.cluster()
	result := c.succeeded().at("result")
	shape, others := "", false
	walk(result, "", 0, func(record map[string]any, _ string, depth int) {
		switch id, _ := record["id"].(string); {
		case id == "":
		case id != c.id:
			others = true
		case depth == 0:
			shape = "at the top"
		case depth == 1:
			shape = "in one nested object"
		default:
			shape = "one level deeper"
		}
	})
	if others && shape == "in one nested object" {
		shape = "beside other records"
	}
	p.note("created id", shape)
}

func jobErrorShape(p *probe) {
	p.hidden("needs a job that fails")
	p.fault(emulator.Fault{Count: 1, Path: "/vpcs", Job: emulator.JobFails, JobCode: "INSUFFICIENT_CAPACITY", JobMessage: "no room"})
	a := p.me().follow(p.me().start("POST", "/vpcs", object("name", p.name()))).ended()
	switch problem := a.at("error").(type) {
	case string:
		p.note("job error", "string")
	case map[string]any:
		shape := "object"
		if at(problem, "error", "code") != nil {
			shape = "whole error body"
		}
		p.note("job error", shape)
	default:
		p.Errorf("error of a failed job is %v", problem)
	}
}

func versionText(p *probe) {
	shapes := map[string]bool{}
	for _, version := range p.versions() {
		text, _ := at(version, "semanticVersion").(string)
		switch {
		case !semantic.MatchString(text):
			p.Errorf("version %v: semanticVersion is %q", at(version, "id"), text)
		case strings.HasPrefix(text, "v"):
			shapes["with v"] = true
		default:
			shapes["without v"] = true
		}
	}
	p.note("version text", strings.Join(slices.Sorted(maps.Keys(shapes)), " and "))
}
