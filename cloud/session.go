// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
)

// Times between logins. After a refusal there are at most two in any minute.
const (
	refusalBackoff    = 30 * time.Second
	maxRefusalBackoff = 10 * time.Minute

	// After a login that failed without a verdict on the credentials. It begins with the interval at which jobs are polled, so
	// that a short outage is not noticed, and ends well below the refusals': an outage ends by itself.
	outageBackoff    = 5 * time.Second
	maxOutageBackoff = time.Minute
)

// session holds the token of one user, and remembers when the portal refused to give one. Its states: no token,
// token, token due for refresh (still used while the login does not work), refused until a time.
type session struct {
	authenticator *authenticator
	flight        singleflight.Group

	mu      sync.Mutex
	current *sessionToken
	last    Login   // outlives the token
	refusal failure // of the last login, or of a token fresh from it
	outage  failure // of the last login, if it failed without a verdict: the portal is down, or cannot be reached
}

// failure is an error that is repeated until a time, without asking the portal.
type failure struct {
	err   *Error // nil if there is none
	until time.Time
	count int // of failures in a row, for the backoff
}

// at returns the error while it is repeated, or else nil.
func (f *failure) at(now time.Time) error {
	if f.err == nil || !now.Before(f.until) {
		return nil
	}
	return f.again()
}

// again returns a copy of the error with the time at which the portal is asked again. It is a copy because many callers share it.
func (f *failure) again() *Error {
	e := *f.err
	e.RetryAt = f.until
	return &e
}

// keep notes the error for a time, or for longer if the portal asked for that.
func (f *failure) keep(e *Error, wait time.Duration) error {
	now := time.Now()
	f.err, f.until = e, now.Add(max(wait, e.RetryAt.Sub(now)))
	return f.again()
}

// backoff returns the wait after one more failure.
func (f *failure) backoff(first, most time.Duration) time.Duration {
	f.count++
	return min(first<<min(f.count-1, 10), most)
}

// blocked returns the reason why a call that needs a token cannot be made now: there is no token, and the last login has just
// failed.
func (s *session) blocked(now time.Time) error {
	if g, err := s.known(now); g == nil || !now.Before(g.expiresAt) {
		return err
	}
	return nil
}

// token returns a usable token. Many callers share one login.
func (s *session) token(ctx context.Context) (*sessionToken, error) {
	now := time.Now()
	g, err := s.known(now)
	if g != nil && now.Before(g.refreshAt) {
		return g, nil
	}
	if err == nil {
		var fresh *sessionToken
		if fresh, err = s.login(ctx); err == nil {
			return fresh, nil
		}
	}
	if g != nil && now.Before(g.expiresAt) {
		return g, nil // the refresh failed, but the old token is still valid
	}
	return nil, err
}

// known returns the present token, if any, and the remembered refusal or outage while it lasts.
func (s *session) known(now time.Time) (*sessionToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusal.at(now); err != nil {
		return s.current, err
	}
	return s.current, s.outage.at(now)
}

// login asks the portal once for all callers. It outlives the caller that started it, since others wait for it.
func (s *session) login(ctx context.Context) (*sessionToken, error) {
	done := s.flight.DoChan("", func() (any, error) {
		if g, err := s.settled(); g != nil || err != nil {
			return g, err
		}
		g, err := s.authenticator.authenticate(context.WithoutCancel(ctx))
		return g, s.keep(g, err)
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*sessionToken), nil
	case <-ctx.Done():
		return nil, &Error{Endpoint: routeLogin.String(), Message: reason(ctx.Err()), kind: kindUnavailable, cause: ctx.Err()}
	}
}

// settled looks again under the single flight: another flight may just have ended.
func (s *session) settled() (*sessionToken, error) {
	now := time.Now()
	g, err := s.known(now)
	if err != nil || g == nil || !now.Before(g.refreshAt) {
		return nil, err
	}
	return g, nil
}

// keep stores the outcome of a login.
func (s *session) keep(g *sessionToken, err error) error {
	if err != nil {
		return s.remember(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.last, s.refusal.err, s.outage = g, g.login, nil, failure{}
	return nil
}

// remember notes why a login failed, unless that was only the rate limit, which the limiter remembers.
func (s *session) remember(err error) error {
	e := asError(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case IsUnavailable(err):
		return s.outage.keep(e, s.outage.backoff(outageBackoff, maxOutageBackoff))
	case IsUnauthorized(err), IsMFARequired(err):
		return s.refusal.keep(e, s.refusal.backoff(refusalBackoff, maxRefusalBackoff))
	case IsNotPortal(err), IsHostRefused(err): // which judged no credentials, but should not be sent them all the time
		return s.refusal.keep(e, refusalBackoff)
	}
	return err
}

// lastSuccess returns the last login that worked, and the refusal if the portal has refused one since.
func (s *session) lastSuccess() (Login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal.err == nil {
		return s.last, nil
	}
	return s.last, s.refusal.again()
}

// drop forgets a token that the portal refused, unless it has been replaced.
func (s *session) drop(g *sessionToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.token.reveal() == g.token.reveal() {
		s.current = nil
	}
}

// refuse remembers that the portal does not take its own fresh token.
func (s *session) refuse(e *Error) error {
	e.kind = kindUnauthorized
	return s.remember(e)
}

// accepted notes that the portal took the token.
func (s *session) accepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal.count = 0
}

// lastLogin returns the last login, or the refusal if it was refused. It returns the refusal even while an older token is in use, so
// that callers notice bad credentials before a new token is needed.
func (s *session) lastLogin(ctx context.Context) (Login, error) {
	login, refused := s.lastSuccess()
	if login.UserID != "" && refused == nil {
		return login, nil
	}
	g, err := s.token(ctx)
	if err != nil {
		return Login{}, err
	}
	if _, refused = s.lastSuccess(); refused != nil {
		return Login{}, refused
	}
	if g.login.UserID == "" {
		return Login{}, &Error{Endpoint: routeLogin.String(), Message: "the login's answer names no user.id", kind: kindUnavailable}
	}
	return g.login, nil
}

// Token lifetime (specification, "Authentication", rule 7): 8 hours, to be refreshed after 7.
const (
	tokenLifetime = 8 * time.Hour
	minRefresh    = 30 * time.Second // a portal that issues shorter tokens, or a proxy that sends 401, must not cost more than 2 logins a minute
)

// sessionToken is what a login gave.
type sessionToken struct {
	token     secret
	login     Login
	issuedAt  time.Time // by this machine's clock
	refreshAt time.Time
	expiresAt time.Time
}

// isFresh reports whether the portal issued the token so recently that it cannot have expired.
func (g *sessionToken) isFresh(now time.Time) bool { return now.Sub(g.issuedAt) < minRefresh }

// schedule sets when a token is refreshed: at 7/8 of its life.
func schedule(token string, login Login, now time.Time) *sessionToken {
	login.Issued, login.Expires = claimedTimes(token)
	life := lifetime(login, now)
	return &sessionToken{
		token:     conceal(token),
		login:     login,
		issuedAt:  now,
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

func isJWT(token string) bool {
	_, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	return err == nil
}
