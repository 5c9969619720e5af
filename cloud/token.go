// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Token lifetime (specification, "Authentication", rule 7): 8 hours, to be refreshed after 7.
const (
	tokenLifetime = 8 * time.Hour
	minRefresh    = 30 * time.Second // a portal that issues shorter tokens must not cost more than 2 logins a minute
)

// grant is what a login gave.
type grant struct {
	token     secret
	userID    string
	refreshAt time.Time
	expiresAt time.Time
}

// schedule sets when a token is refreshed: at 7/8 of its life.
func schedule(token, userID string, now time.Time) *grant {
	life := lifetime(token, now)
	return &grant{
		token:     conceal(token),
		userID:    userID,
		refreshAt: now.Add(max(life*7/8, minRefresh)),
		expiresAt: now.Add(life),
	}
}

// lifetime reads the exp claim, unverified since only the portal can verify it and nothing but a schedule depends on
// it. Against iat where there is one, so that this machine's clock may be wrong. Without a usable exp, and at most,
// it is what the specification says.
func lifetime(token string, now time.Time) time.Duration {
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	if err != nil || claims.ExpiresAt == nil {
		return tokenLifetime
	}
	from := now
	if claims.IssuedAt != nil {
		from = claims.IssuedAt.Time
	}
	life := claims.ExpiresAt.Sub(from)
	if life <= 0 || life > tokenLifetime {
		return tokenLifetime
	}
	return life
}

// tokenIn finds the token in the answer of verify-otp, whose field name the specification does not show: the usual
// names at the top, or in one nested object.
func tokenIn(body []byte) (string, bool) {
	if t := namedToken(body); t != "" {
		return t, true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return "", false
	}
	found := ""
	for _, raw := range fields {
		if !isObject(raw) {
			continue
		}
		t := namedToken(raw)
		if t == "" || t == found {
			continue
		}
		if found != "" {
			return "", false
		}
		found = t
	}
	return found, found != ""
}

func namedToken(raw []byte) string {
	var v struct {
		Token       string `json:"token"`
		AccessToken string `json:"accessToken"`
		Access      string `json:"access_token"`
		JWT         string `json:"jwt"`
	}
	_ = json.Unmarshal(raw, &v) // a field of another type leaves the others readable
	for _, t := range []string{v.Token, v.AccessToken, v.Access, v.JWT} {
		if usableToken(t) {
			return t
		}
	}
	return ""
}

// usableToken keeps anything out of the Authorization header that is not a plain word.
func usableToken(t string) bool {
	for _, r := range t {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return t != ""
}
