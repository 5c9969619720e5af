// SPDX-License-Identifier: Apache-2.0

package cloud

import (
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
	login     Login
	refreshAt time.Time
	expiresAt time.Time
}

// schedule sets when a token is refreshed: at 7/8 of its life.
func schedule(token string, login Login, now time.Time) *grant {
	login.Issued, login.Expires = claimedTimes(token)
	life := lifetime(login, now)
	return &grant{
		token:     conceal(token),
		login:     login,
		refreshAt: now.Add(max(life*7/8, minRefresh)),
		expiresAt: now.Add(life),
	}
}

// claimedTimes reads the claims iat and exp, unverified, since only the portal can verify them. Nothing but a schedule
// depends on them. They are zero if the token has none.
func claimedTimes(token string) (issued, expires time.Time) {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return issued, expires
	}
	if claims.IssuedAt != nil {
		issued = claims.IssuedAt.Time
	}
	if claims.ExpiresAt != nil {
		expires = claims.ExpiresAt.Time
	}
	return issued, expires
}

// lifetime is measured from iat if the token has it, so that this machine's clock may be wrong. Without a usable exp,
// and at most, it is what the specification says.
func lifetime(login Login, now time.Time) time.Duration {
	if login.Expires.IsZero() {
		return tokenLifetime
	}
	from := now
	if !login.Issued.IsZero() {
		from = login.Issued
	}
	life := login.Expires.Sub(from)
	if life <= 0 || life > tokenLifetime {
		return tokenLifetime
	}
	return life
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
