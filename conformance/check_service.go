// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var serviceChecks = []check{
	{name: "service/every answer is JSON", run: everyAnswerIsJSON},
	{name: "service/plain HTTP is rejected", run: plainHTTP},
	{name: "service/reads and logins are synchronous", run: synchronous},
	{name: "status/200 for a read", run: func(p *probe) { p.me().get("/kubernetes-versions").want(http.StatusOK) }},
	{name: "endpoints/GET kubernetes-versions", run: func(p *probe) { p.me().get("/kubernetes-versions").records("versions") }},
	{name: "versions/each has an id", run: func(p *probe) { p.eachVersion("id", func(id string) bool { return id != "" }) }},
	{name: "versions/each has a semantic version", run: func(p *probe) { p.eachVersion("semanticVersion", semantic.MatchString) }},
	{name: "versions/each has a state", run: func(p *probe) { p.eachVersion("state", func(state string) bool { return state != "" }) }},
	{name: "versions/each is 1.27 or later", run: func(p *probe) {
		p.eachVersion("semanticVersion", func(version string) bool {
			return slices.Compare(numbers(map[string]any{"semanticVersion": version}), []int{1, 27}) >= 0
		})
	}},
}

// semantic allows a leading v, because the specification does not show whether the version has one.
var semantic = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+].+)?$`)

func (p *probe) eachVersion(field string, right func(string) bool) {
	for _, version := range p.versions() {
		if text, ok := at(version, field).(string); !ok || !right(text) {
			p.Errorf("version %v: %s is %q", at(version, "id"), field, text)
		}
	}
}

// numbers returns the numbers of a version's semanticVersion, or nil if it is not a version.
func numbers(version any) []int {
	text, _ := at(version, "semanticVersion").(string)
	core := strings.FieldsFunc(strings.TrimPrefix(text, "v"), func(r rune) bool { return r == '-' || r == '+' })
	var out []int
	for _, part := range strings.Split(strings.Join(core[:min(len(core), 1)], ""), ".") {
		if n, err := strconv.Atoi(part); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// samples returns examples of successful and refused answers to requests that cost nothing.
func (p *probe) samples() (successes, refusals []*answer) {
	me := p.me()
	successes = []*answer{me.get("/kubernetes-versions"), me.get("/vpcs"), me.get("/instances")}
	for _, path := range []string{"/jobs/", "/instances/"} {
		refusals = append(refusals, me.get(path+unknownID))
	}
	refusals = append(refusals,
		me.get("/kubernetes-clusters/"+unknownID+"/config"), p.with("").get("/vpcs"), p.with("no token").get("/vpcs"),
		p.with("").post("/login", `{}`), p.with("").post("/login", `{"email":`), p.with("").post("/login", object("email", 5, "password", 5)))
	return successes, refusals
}

// unknownID is an id that belongs to no resource.
const unknownID = "00000000-0000-4000-8000-000000000000"

func everyAnswerIsJSON(p *probe) {
	successes, refusals := p.samples()
	for _, a := range append(successes, refusals...) {
		media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
		if err != nil || media != "application/json" || !json.Valid(a.raw) {
			p.Errorf("%s: status %d is %s of %d bytes", a.what, a.status, media, len(a.raw))
		}
	}
}

// plainHTTP sends a request without a token, because the network could read it. The answer must not be the API's own, which is 401
// INVALID_TOKEN.
func plainHTTP(p *probe) {
	p.with("").get("/vpcs").refused("INVALID_TOKEN")
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, strings.Replace(p.URL, "https://", "http://", 1)+"/vpcs", http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	response, err := p.via.RoundTrip(r)
	if err != nil {
		return // no connection, so plain HTTP is not served
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body) // a part of the body is enough
	if response.StatusCode < 300 || strings.Contains(string(body), "INVALID_TOKEN") {
		p.Errorf("plain HTTP is answered with status %d: %s", response.StatusCode, p.hide(string(body)))
	}
}

func synchronous(p *probe) {
	me := p.me()
	answers := []*answer{p.login(p.who(anyone)), me.get("/kubernetes-versions"), me.get("/vpcs"), me.get("/instances")}
	if p.Create {
		answers = append(answers, me.get("/kubernetes-clusters/"+p.cluster().id+"/config"))
	}
	for _, a := range answers {
		if a.want(http.StatusOK).at("jobId") != nil {
			p.Errorf("%s starts a job", a.what)
		}
	}
}
