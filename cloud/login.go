// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// authenticator performs the login (specification, "Authentication", rules 1 and 3): credentials, then a second factor
// if the account has one.
type authenticator struct {
	email    string
	password secret
	factor   *secondFactor
	next     handler
	account  *clientAccount
	wait     bool        // of Config.Wait
	observe  func(error) // Config.ObserveLogin, or nil
}

type loginRequest struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

type loginResult struct {
	Token string `json:"token"`
	User  struct {
		ID    jsonText `json:"id"`
		Email jsonText `json:"email"`
		Role  jsonText `json:"role"`
	} `json:"user"`
	MFARequired bool `json:"mfaRequired"`
}

// Login is the result of a login (specification, "Login result") without the token.
type Login struct {
	UserID, Email, Role string
	MFARequired         bool
	// Issued and Expires are claims of the full-access token, by the portal's clock. They are zero if it has none.
	Issued, Expires time.Time
}

func (e *authenticator) authenticate(ctx context.Context) (*sessionToken, error) {
	if err := e.factor.ready(time.Now()); err != nil {
		return nil, err
	}
	reservations, err := e.reserve(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, r := range reservations { // of requests that were not needed
			r.Cancel()
		}
	}()
	g, err := e.tryLogin(WithReservation(ctx, reservations...))
	if e.observe != nil {
		e.observe(err)
	}
	return g, err
}

// Requests of a login, without and with a second factor.
const (
	plainLogin  = 1
	factorLogin = 3
)

// reserve reserves all requests of the login together. If they were reserved one by one, those of the second factor would come after
// all that waits, so that on a busy account many logins would begin and none would finish.
func (e *authenticator) reserve(ctx context.Context) (reservations []*ratelimit.Reservation, err error) {
	requests := plainLogin
	if e.factor.seed != nil || e.factor.ask != nil {
		requests = factorLogin
	}
	limiter, flow := e.account.current(), fmt.Sprintf("login %p", e)
	if e.wait {
		reservations, err = limiter.WaitLogin(ctx, flow, requests)
	} else {
		reservations, err = limiter.ReserveLogin(flow, requests)
	}
	if err != nil {
		return nil, (&call{route: routeLogin}).notSent(limitError(err))
	}
	return reservations, nil
}

func (e *authenticator) tryLogin(ctx context.Context) (*sessionToken, error) {
	result, answered, err := e.login(ctx)
	if err != nil {
		return nil, err
	}
	token, requests := result.Token, plainLogin
	if result.MFARequired {
		if token, err = e.factor.pass(ctx, token); err != nil {
			return nil, err
		}
		requests = factorLogin
	}
	login := e.describe(result)
	e.account.prove(login, requests, answered)
	return schedule(token, login, time.Now()), nil
}

// describe cleans what the login said about the user.
func (e *authenticator) describe(r *loginResult) Login {
	secrets := []string{r.Token, e.password.reveal()}
	return Login{
		UserID:      string(r.User.ID),
		Email:       clean(string(r.User.Email), maxName, secrets),
		Role:        clean(string(r.User.Role), maxName, secrets),
		MFARequired: r.MFARequired,
	}
}

func (e *authenticator) login(ctx context.Context) (*loginResult, *ratelimit.Response, error) {
	c, err := newCall(routeLogin, "", loginRequest{Email: e.email, Password: e.password.reveal()})
	if err != nil {
		return nil, nil, err
	}
	c.hidden = []string{e.password.reveal()}
	a, err := e.next.do(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if !a.ok() {
		return nil, nil, loginRefused(refused(c, a))
	}
	var result loginResult
	if json.Unmarshal(a.body, &result) != nil || !usableToken(result.Token) {
		return nil, nil, withoutToken(c, a)
	}
	return &result, a.response(), nil
}

// withoutToken makes the error of a login that succeeded without a token: the server is not the portal.
func withoutToken(c *call, a *answer) *Error {
	e := unreadable(c, a, "no token")
	e.kind = kindNotPortal
	return e
}

// loginRefused gives an error of the login the kind that it has for the call that needed the login: a 404 or
// "invalid parameter" here says nothing about the cluster that is to be deleted or scaled. The credentials are refused
// by a 401, and by any code in the documented body that is not about something else. No login has an id in its path, so
// "not found" is about the endpoint.
func loginRefused(e *Error) *Error {
	_, listed := kindOfCode[e.Code]
	switch kind := classify(e.Code, e.Status); {
	case kind == kindMFARequired, kind == kindRateLimited:
		e.kind = kind
	case kind == kindUnavailable, kind == kindBusy, kind == kindCapacity:
		e.kind = kindUnavailable
	case kind == kindNotFound, kind == kindUnsupported, e.Status == http.StatusMethodNotAllowed,
		e.Status < 400 && !listed, e.Status != http.StatusUnauthorized && !e.documented:
		e.kind = kindNotPortal
	default:
		e.kind = kindUnauthorized
	}
	return e
}
