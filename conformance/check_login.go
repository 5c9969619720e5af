// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var loginChecks = []check{
	{name: "endpoints/POST login", run: func(p *probe) {
		a := p.login(p.who(anyone)).want(http.StatusOK)
		for _, path := range [][]any{{"token"}, {"user", "id"}, {"user", "email"}, {"user", "role"}} {
			a.text(path...)
		}
		if _, ok := a.at("mfaRequired").(bool); !ok {
			p.Error("mfaRequired is not a boolean")
		}
	}},
	{name: "login/token is a JWT", run: func(p *probe) {
		if !isJWT(p.login(p.who(anyone)).want(http.StatusOK).text("token")) {
			p.Error("the token is not a JWT")
		}
	}},
	{name: "login/user.id is the user's", run: userID},
	{name: "login/user.email is the user's", run: func(p *probe) {
		u := p.who(anyone)
		if got := p.login(u).text("user", "email"); !strings.EqualFold(got, u.email) {
			p.Errorf("user.email is %s, want %s", got, u.email)
		}
	}},
	{name: "login/user.role of an Administrator", run: func(p *probe) {
		if got := p.login(p.who(administrator)).text("user", "role"); got != "Administrator" {
			p.Errorf("user.role is %s", got)
		}
	}},
	{name: "login/mfaRequired tells whether there is MFA", run: func(p *probe) {
		main := p.who(anyone)
		if got, want := p.login(main).at("mfaRequired"), main.seed != nil; got != want {
			p.Errorf("mfaRequired is %v, but the user has a TOTP seed: %t", got, want)
		}
	}},
	{name: "login/a wrong password gives no token", run: func(p *probe) {
		u := *p.who(anyone)
		u.password = conceal(u.password.reveal() + "!")
		if found := tokens(p.login(&u).refused().body); len(found) > 0 {
			p.Error("the refusal has a token")
		}
	}},
	{name: "authentication/MFA makes login say mfaRequired", run: func(p *probe) {
		a := p.login(p.who(withMFA)).want(http.StatusOK)
		if a.at("mfaRequired") != true || !isJWT(a.text("token")) {
			p.Errorf("mfaRequired is %v", a.at("mfaRequired"))
		}
	}},
	{name: "endpoints/POST mfa send-otp", run: func(p *probe) {
		p.preMFA().post("/mfa/send-otp", "").want(http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	}},
	{name: "endpoints/POST mfa verify-otp", run: func(p *probe) { p.verify(p.who(withMFA), p.preMFA().token) }},
	{name: "authentication/MFA from the pre-MFA token to full access", run: func(p *probe) {
		full := p.with(p.verify(p.who(withMFA), p.preMFA().token))
		full.get("/kubernetes-versions").want(http.StatusOK)
		full.get("/vpcs").want(http.StatusOK)
	}},
	{name: "authentication/MFA with a wrong code", run: wrongCode},
	{name: "endpoints/POST admin mfa disable", run: disableMFA},
}

// resetChecks follow the steps of a person who forgot a password.
var resetChecks = []check{
	{name: "endpoints/POST reset-password", run: func(p *probe) {
		if p.resetToken() == "" {
			p.Error("the link contains no token")
		}
	}},
	{name: "endpoints/POST reset-password token", run: func(p *probe) {
		u := p.who(ordinary)
		token, old := p.resetToken(), *u
		p.with("").post("/reset-password/"+token, object("password", "another of the suite")).want(http.StatusOK, http.StatusNoContent)
		p.login(&old).refused()
		u.password = conceal("another of the suite")
		p.login(u).want(http.StatusOK)
	}},
}

func userID(p *probe) {
	u := p.who(anyone)
	first, second := p.login(u).text("user", "id"), p.login(u).text("user", "id")
	if first != second {
		p.Errorf("user.id is %s, then %s", first, second)
	}
	if other := p.users[stranger]; other != nil && p.login(other).text("user", "id") == first {
		p.Errorf("user.id %s is another user's as well", first)
	}
}

// wrongCode sends a code that is wrong for every clock near ours.
func wrongCode(p *probe) {
	u := p.who(withMFA)
	right := map[string]bool{}
	for _, off := range []time.Duration{-otpPeriod, 0, otpPeriod} {
		code, err := totp.GenerateCode(u.seed.reveal(), time.Now().Add(off*time.Second))
		if err != nil || u.seed == nil {
			p.skip("needs the TOTP seed of a user with MFA, in PORTAL_TOTP_SEED")
		}
		right[code] = true
	}
	wrong := ""
	for i := 0; wrong == "" || right[wrong]; i++ {
		wrong = fmt.Sprintf("%06d", i)
	}
	pending := p.preMFA()
	pending.post("/mfa/send-otp", "").want(http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	if found := tokens(pending.post("/mfa/verify-otp", object("otp", wrong)).refused().body); len(found) > 0 {
		p.Error("the refusal has a token")
	}
}

func disableMFA(p *probe) {
	p.hidden("turns the MFA of users off")
	p.as(administrator).post("/admin/mfa/disable/"+emulator.DefaultIDP, "").want(http.StatusOK)
	if got := p.login(p.who(withMFA)).want(http.StatusOK).at("mfaRequired"); got != false {
		p.Errorf("mfaRequired is still %v", got)
	}
}

// resetToken requests a password reset and returns the token from the mail.
func (p *probe) resetToken() string {
	p.hidden("sends an e-mail and changes a password")
	u := p.who(ordinary)
	p.with("").post("/reset-password", object("email", u.email)).want(http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	mails := p.books.Mailbox(u.email)
	if len(mails) != 1 {
		p.Fatalf("%d mails were sent", len(mails))
	}
	return mails[0].ResetToken
}
