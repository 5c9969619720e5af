// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// resetLifetime of the token in a reset link. The specification does not show it.
const resetLifetime = time.Hour

// reset is a password reset that was asked for and not completed.
type reset struct {
	user    *user
	expires time.Time
}

// Mail is a message that the portal would have sent. It holds a secret, so it is never in the request log.
type Mail struct {
	Time       time.Time `json:"time"`
	To         string    `json:"to"`
	Subject    string    `json:"subject"`
	ResetToken string    `json:"resetToken"` // the last segment of the link
}

// String keeps the reset token out of logs and test output.
func (m Mail) String() string { return "mail to " + m.To + ": " + m.Subject }

// Format implements fmt.Formatter for every verb, so that none walks the fields.
func (m Mail) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, m.String()) }

// Mailbox returns what the portal sent to an address, oldest first.
func (p *Portal) Mailbox(email string) []Mail {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mailbox[strings.ToLower(email)])
}

type resetBody struct {
	Email string `json:"email" portal:"required"`
}

// requestReset answers POST /reset-password. The answer is the same for unknown addresses, so it does not show who is
// a user.
func (p *Portal) requestReset(c *call) (answer, *refusal) {
	var body resetBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.ToLower(body.Email)
	if u := p.users[key]; u != nil {
		token := secret(32)
		p.resets[token] = &reset{user: u, expires: c.now().Add(resetLifetime)}
		p.mailbox[key] = append(p.mailbox[key],
			Mail{Time: c.now(), To: u.Email, Subject: "Reset your password", ResetToken: token})
		c.note(LogEntry{Object: "user", ID: u.ID, Account: u.Account, To: "reset link sent"})
	}
	return answer{status: http.StatusOK, body: struct{}{}}, nil
}

type newPasswordBody struct {
	Password string `json:"password" portal:"required"`
}

// completeReset answers POST /reset-password/{token}. A link works once, and ends the user's tokens.
func (p *Portal) completeReset(c *call) (answer, *refusal) {
	var body newPasswordBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resets[c.params["token"]]
	delete(p.resets, c.params["token"])
	if r == nil || !c.now().Before(r.expires) {
		return answer{}, refuse(CodeResourceNotFound, "the reset link is unknown, used or expired")
	}
	r.user.Password = body.Password
	for _, s := range p.sessions {
		s.revoked = s.revoked || s.user == r.user
	}
	c.note(LogEntry{Object: "user", ID: r.user.ID, Account: r.user.Account, To: "password changed, tokens revoked"})
	return answer{status: http.StatusOK, body: struct{}{}}, nil
}
