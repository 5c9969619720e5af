// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// preMFALifetime of a pre-MFA token. The specification does not show it (Authentication 12).
const preMFALifetime = 10 * time.Minute

// sessionMemory is how long after its end a session is remembered. Until then, its token is answered as expired, and counts against the
// account's budget.
const sessionMemory = 24 * time.Hour

// session is the session of a token. The session of a pre-MFA token is replaced when the one-time code is verified. A session
// ends when it expires, by a password reset, or by a fault.
type session struct {
	id        string
	user      *user
	preMFA    bool
	issued    time.Time
	expires   time.Time
	revoked   bool
	otpSent   bool
	otpMisses int
}

// claims of the portal's tokens.
type claims struct {
	jwt.RegisteredClaims
	Account string `json:"account"`
	Role    Role   `json:"role"`
	MFA     string `json:"mfa,omitempty"` // "pending" in a pre-MFA token
}

// openSession lets a user in. Callers hold mu.
func (p *Portal) openSession(u *user, pending bool, now time.Time) *session {
	lifetime := p.opts.TokenLifetime
	if pending {
		lifetime = preMFALifetime
	}
	if len(p.sessions) >= p.pruneAt {
		maps.DeleteFunc(p.sessions, func(_ string, s *session) bool { return now.After(s.expires.Add(sessionMemory)) })
		p.pruneAt = 2*len(p.sessions) + 1000
	}
	s := &session{id: p.newID("token"), user: u, preMFA: pending, issued: now, expires: now.Add(lifetime)}
	p.sessions[s.id] = s
	return s
}

// sign makes a session's token.
func (p *Portal) sign(s *session) string {
	body := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: s.id, Subject: s.user.ID, IssuedAt: jwt.NewNumericDate(s.issued), ExpiresAt: jwt.NewNumericDate(s.expires),
		},
		Account: s.user.Account,
		Role:    s.user.Role,
	}
	if p.opts.Shapes.TokensWithoutExp {
		body.ExpiresAt = nil
	}
	if s.preMFA {
		body.MFA = "pending"
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, body).SignedString(p.tokenKey)
	if err != nil {
		panic("a token of known type with a key of known type is always signed: " + err.Error())
	}
	return token
}

// identify finds the account whose budget the call uses. It does not check the token: authenticate does.
func (c *call) identify() {
	if c.route != nil && c.route.access == open {
		c.account = c.portal.anonymousAccount(c)
		return
	}
	scheme, token, _ := strings.Cut(c.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return
	}
	var body claims
	_, err := jwt.ParseWithClaims(strings.TrimSpace(token), &body, func(*jwt.Token) (any, error) { return c.portal.tokenKey, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithoutClaimsValidation())
	if err != nil {
		return
	}
	c.portal.mu.Lock()
	defer c.portal.mu.Unlock()
	c.session = c.portal.sessions[body.ID]
	if c.session != nil {
		c.account = c.session.user.Account
	}
}

// authenticate refuses callers without the token that the endpoint asks for (specification, Authentication 3 to 6).
func (c *call) authenticate() *refusal {
	if c.route.access == open {
		return nil
	}
	c.portal.mu.Lock()
	defer c.portal.mu.Unlock()
	s := c.session
	switch {
	case s == nil:
		return refuse(CodeInvalidToken, "the token is missing or not one of this portal's")
	case s.revoked:
		return refuse(CodeInvalidToken, "the token was revoked")
	case !c.now().Before(s.expires):
		return refuse(CodeInvalidToken, "the token has expired")
	case s.preMFA && c.route.access != preMFA:
		return refuse(CodeMFARequired, "the one-time code has not been verified")
	case !s.preMFA && c.route.access == preMFA:
		return refuse(CodeOperationNotAllowed, "the token is a full-access token already")
	case c.route.access == administrator && s.user.Role != RoleAdministrator:
		return refuse(CodeForbidden, "only an Administrator may do this").as(http.StatusForbidden)
	}
	return nil
}
