// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/pquerna/otp/totp"
)

const otpPeriod = 30 // length of a TOTP step in seconds

// who returns the site's user with a role, and skips the check if none has it.
func (p *probe) who(r role) *user {
	u := p.users[r]
	if u == nil {
		p.skip("needs " + string(r))
	}
	return u
}

// as returns the probe with a full-access token of a user. Checks share the token.
func (p *probe) as(r role) *probe {
	u := p.who(r)
	if u.token == nil {
		u.token = conceal(p.enter(u))
	}
	return p.with(u.token.reveal())
}

// me returns the probe as the site's first user.
func (p *probe) me() *probe { return p.as(anyone) }

// with returns the probe with another token, or "" for none.
func (p *probe) with(token string) *probe {
	other := *p
	other.token = token
	return &other
}

// enter logs a user in, with MFA if the user has it, and returns the token.
func (p *probe) enter(u *user) string {
	a := p.login(u).want(http.StatusOK)
	if a.at("mfaRequired") != true {
		return a.text("token")
	}
	return p.verify(u, a.text("token"))
}

// login calls POST /login.
func (p *probe) login(u *user) *answer {
	return p.with("").post("/login", object("email", u.email, "password", u.password.reveal()))
}

// preMFA returns the probe with a pre-MFA token of the user with MFA.
func (p *probe) preMFA() *probe {
	a := p.login(p.who(withMFA)).want(http.StatusOK)
	if a.at("mfaRequired") != true {
		p.Fatal("the portal does not ask the user with MFA for a code")
	}
	return p.with(a.text("token"))
}

// verify exchanges a pre-MFA token for a full-access one.
func (p *probe) verify(u *user, preMFA string) string {
	pending := p.with(preMFA)
	pending.post("/mfa/send-otp", "").want(http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	return tokenIn(pending.post("/mfa/verify-otp", object("otp", p.code(u))).want(http.StatusOK, http.StatusCreated))
}

// code returns an unused one-time code.
func (p *probe) code(u *user) string {
	if u.seed == nil {
		p.skip("needs the TOTP seed of a user with MFA, in PORTAL_TOTP_SEED")
	}
	for time.Now().Unix()/otpPeriod <= u.step {
		time.Sleep(time.Second)
	}
	u.step = time.Now().Unix() / otpPeriod
	code, err := totp.GenerateCode(u.seed.reveal(), time.Now())
	if err != nil {
		p.Fatal("the TOTP seed gives no code")
	}
	return code
}

// tokenIn returns the only JWT in any field of an answer. The specification does not show the field's name for verify-otp.
func tokenIn(a *answer) string {
	found := tokens(a.body)
	if len(found) != 1 {
		a.Fatalf("%s: %d JWTs: %s", a.what, len(found), a.shown())
	}
	return found[0]
}

func tokens(value any) []string {
	var found []string
	switch value := value.(type) {
	case string:
		if isJWT(value) {
			found = append(found, value)
		}
	case map[string]any:
		for _, inner := range value {
			found = append(found, tokens(inner)...)
		}
	}
	return found
}

func isJWT(text string) bool {
	_, _, err := jwt.NewParser().ParseUnverified(text, jwt.MapClaims{})
	return err == nil
}

// acquaint logs a real portal's user in, and finds out the roles.
func (s *site) acquaint() error {
	a := s.try(func(p *probe) {
		main := s.users[anyone]
		a := p.login(main).want(http.StatusOK)
		if a.at("mfaRequired") == true {
			s.users[withMFA] = main
		}
		if a.at("user", "role") == "Administrator" {
			s.users[administrator] = main
		} else {
			s.users[ordinary] = main
		}
	})
	if len(a.failures) > 0 {
		return errors.New("nothing was checked: " + a.failures[0])
	}
	return nil
}

// object returns a JSON object of keys and values.
func object(pairs ...any) string {
	fields := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i].(string)] = pairs[i+1]
	}
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err) // checks use only plain values
	}
	return string(out)
}
