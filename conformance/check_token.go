// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var tokenChecks = []check{
	{name: "authentication/the token of a login opens protected endpoints", run: func(p *probe) {
		p.with(p.enter(p.who(anyone))).get("/kubernetes-versions").want(http.StatusOK)
	}},
	{name: "authentication/every protected endpoint asks for a token", run: func(p *probe) {
		for _, e := range p.protected() {
			p.with("").start(e.method, e.path, e.body).want(http.StatusUnauthorized).refused("INVALID_TOKEN")
		}
		for _, path := range []string{"/mfa/send-otp", "/mfa/verify-otp"} {
			p.with("").post(path, "").refused()
		}
	}},
	{name: "authentication/a pre-MFA token opens no protected endpoint", run: func(p *probe) {
		pending := p.preMFA()
		for _, e := range p.protected() {
			pending.start(e.method, e.path, e.body).refused()
		}
	}},
	{name: "errors/MFA_REQUIRED for a pre-MFA token", run: func(p *probe) {
		pending := p.preMFA()
		for _, e := range p.protected() {
			pending.start(e.method, e.path, e.body).refused("MFA_REQUIRED")
		}
	}},
	{name: "errors/INVALID_TOKEN for a missing token", run: func(p *probe) {
		p.with("").get("/kubernetes-versions").want(http.StatusUnauthorized).refused("INVALID_TOKEN")
	}},
	{name: "errors/INVALID_TOKEN for a wrongly signed token", run: wronglySigned},
	{name: "errors/INVALID_TOKEN for an expired token", run: func(p *probe) {
		p.after(8 * time.Hour).get("/kubernetes-versions").want(http.StatusUnauthorized).refused("INVALID_TOKEN")
	}},
	{name: "authentication/a token lives 8 hours", run: func(p *probe) {
		p.after(8*time.Hour - time.Minute).get("/kubernetes-versions").want(http.StatusOK)
	}},
	{name: "authentication/after expiry another login helps", run: func(p *probe) {
		p.after(9 * time.Hour)
		p.with(p.enter(p.who(anyone))).get("/kubernetes-versions").want(http.StatusOK)
	}},
	{name: "status/403 for an action the user may not perform", run: func(p *probe) {
		p.as(ordinary).post("/admin/mfa/disable/"+unknownID, "").want(http.StatusForbidden).refused()
	}},
}

// protected returns the protected endpoints, with requests that change nothing at a correct portal even with a valid token, because their
// ids do not exist or their bodies are incomplete. Requests with which an incorrect portal might create something are included only if the
// checks may create.
func (p *probe) protected() []endpoint {
	if p.Create {
		return slices.Concat(protected, makers)
	}
	return protected
}

type endpoint struct{ method, path, body string }

var makers = []endpoint{
	{"POST", "/vpcs", `{}`},
	{"POST", "/networks", `{}`},
	{"POST", "/kubernetes-clusters", `{}`},
}

var protected = []endpoint{
	{"POST", "/admin/mfa/disable/" + unknownID, ""},
	{"GET", "/vpcs", ""},
	{"GET", "/kubernetes-versions", ""},
	{"GET", "/kubernetes-clusters/" + unknownID + "/config", ""},
	{"POST", "/kubernetes-clusters/" + unknownID + "/scale", `{}`},
	{"POST", "/kubernetes-clusters/" + unknownID + "/upgrade", `{}`},
	{"DELETE", "/kubernetes-clusters/" + unknownID, ""},
	{"GET", "/jobs/" + unknownID, ""},
	{"GET", "/instances", ""},
	{"GET", "/instances/" + unknownID, ""},
	{"DELETE", "/volumes/" + unknownID, ""},
}

// after returns the probe with a token of that age.
func (p *probe) after(age time.Duration) *probe {
	if !p.virtual {
		p.skip("takes " + age.String())
	}
	aged := p.with(p.enter(p.who(anyone)))
	time.Sleep(age)
	return aged
}

// wronglySigned checks tokens with the claims of a valid one but another signature: by another key, missing, or of another algorithm. It
// also checks other claims under the old signature.
func wronglySigned(p *probe) {
	good := p.me().token
	parts := strings.Split(good, ".")
	var claims jwt.MapClaims
	if _, _, err := jwt.NewParser().ParseUnverified(good, &claims); err != nil || len(parts) != 3 {
		p.Fatal("the token is not a JWT")
	}
	foreign, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("a key of the suite"))
	if err != nil {
		p.Fatal(err)
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		p.Fatal(err)
	}
	claims["sub"] = "somebody else"
	changed, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		p.Fatal(err)
	}
	for name, token := range map[string]string{
		"another key": foreign, "no signature": parts[0] + "." + parts[1] + ".", "algorithm none": unsigned,
		"other claims": parts[0] + "." + strings.Split(changed, ".")[1] + "." + parts[2], "no JWT": "token",
	} {
		a := p.with(token).get("/kubernetes-versions")
		if a.status != http.StatusUnauthorized || a.at("error", "code") != "INVALID_TOKEN" {
			p.Errorf("%s: status %d, code %v", name, a.status, a.at("error", "code"))
		}
	}
}
