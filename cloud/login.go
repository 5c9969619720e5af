// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"time"
)

// entrance performs the login (specification, "Authentication", rules 1 and 3): credentials, then a second factor
// if the account has one.
type entrance struct {
	email    string
	password secret
	factor   *secondFactor
	next     handler
	observe  func(error) // of Config.ObserveLogin; may be nil
}

type loginRequest struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

type loginResult struct {
	Token string `json:"token"`
	User  struct {
		ID text `json:"id"`
	} `json:"user"`
	MFARequired bool `json:"mfaRequired"`
}

func (e *entrance) enter(ctx context.Context) (*grant, error) {
	if err := e.factor.ready(time.Now()); err != nil {
		return nil, err
	}
	g, err := e.attempt(ctx)
	if e.observe != nil {
		e.observe(err)
	}
	return g, err
}

func (e *entrance) attempt(ctx context.Context) (*grant, error) {
	result, err := e.login(ctx)
	if err != nil {
		return nil, err
	}
	token := result.Token
	if result.MFARequired {
		if token, err = e.factor.pass(ctx, token); err != nil {
			return nil, err
		}
	}
	return schedule(token, string(result.User.ID), time.Now()), nil
}

func (e *entrance) login(ctx context.Context) (*loginResult, error) {
	c, err := newCall(routeLogin, "")
	if err != nil {
		return nil, err
	}
	if c, err = c.with(loginRequest{Email: e.email, Password: e.password.reveal()}); err != nil {
		return nil, err
	}
	c.hidden = []string{e.password.reveal()}
	a, err := e.next.do(ctx, c)
	if err != nil {
		return nil, err
	}
	if !a.ok() {
		return nil, loginRefused(refused(c, a))
	}
	var result loginResult
	if json.Unmarshal(a.body, &result) != nil || !usableToken(result.Token) {
		return nil, loginRefused(unreadable(c, a, "no token"))
	}
	return &result, nil
}

// loginRefused gives an error of the login the kind that it has for the call that needed the login: a 404 or
// "invalid parameter" here says nothing about the cluster that is to be deleted or scaled.
func loginRefused(e *Error) *Error {
	switch classify(e.Code, e.Status) {
	case kindMFARequired:
		e.kind = kindMFARequired
	case kindRateLimited:
		e.kind = kindRateLimited
	case kindUnavailable, kindBusy, kindCapacity:
		e.kind = kindUnavailable
	default:
		e.kind = kindUnauthorized
	}
	return e
}
