// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"net/http"
	"time"
)

// authorized puts the bearer token on a call, logging in first if need be. If the portal refuses the token, the request was not
// executed: authorized drops the token and sends the call once more. If a fresh token is refused as well, the session remembers the
// refusal, so that there is no loop of logins. A 401 of a proxy says nothing about the token. It looks like one of a portal without
// the documented body, so the token is replaced, but not one that the portal has just issued.
type authorized struct {
	session *session
	next    handler
}

func (h *authorized) do(ctx context.Context, c *call) (*answer, error) {
	if c.route.access != withToken {
		return h.next.do(ctx, c)
	}
	for replayed := false; ; replayed = true {
		g, err := h.session.token(ctx)
		if err != nil {
			return nil, err
		}
		c.token = g.token
		a, err := h.next.do(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case tokenRefused(c, a):
			e := refused(c, a)
			if !e.isPortals() && (replayed || g.isFresh(time.Now())) {
				return nil, e
			}
			h.session.drop(g)
			if replayed {
				return nil, h.session.refuse(e)
			}
			continue
		case provesToken(c, a):
			h.session.accepted()
		}
		return a, nil
	}
}

// provesToken reports whether only a portal that has accepted the token gives the answer. 5xx and 429 may come before the token is
// looked at, and refusals without the documented body from another server.
func provesToken(c *call, a *answer) bool {
	if c.route.undocumented() || a.status >= 500 || a.status == http.StatusTooManyRequests {
		return false
	}
	_, documented := parseError(a.body, nil)
	return a.ok() || documented
}

// tokenRefused reports whether the portal wants another token: 401, or the codes that say so on any other refusal.
// MFA_REQUIRED on a full-access token means that the account got a second factor since. A mutating call whose
// outcome is in doubt is never sent again, even with such a code.
func tokenRefused(c *call, a *answer) bool {
	if a.ok() || c.route.undocumented() {
		return false
	}
	e, documented := parseError(a.body, nil)
	if unknownOutcome(c.route.mutating, true, a.status, e.Code, documented) {
		return false
	}
	switch e.Code {
	case CodeInvalidToken, CodeMFARequired:
		return true
	}
	_, listed := kindOfCode[e.Code]
	return a.status == http.StatusUnauthorized && !listed
}
