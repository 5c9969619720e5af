// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// DefaultEmail and DefaultAccount are of the user that a portal has when its options name none.
const (
	DefaultEmail   = "admin@portal.example"
	DefaultAccount = "main"
)

// Role of a user. The specification names only Administrator. RoleUser is any other.
type Role string

// The roles of the emulated portal.
const (
	RoleAdministrator Role = "Administrator"
	RoleUser          Role = "User"
)

// User is a portal user. Only Email is required.
type User struct {
	ID       string // default: made up
	Email    string
	Password string // default: generated, see Portal.Credentials
	Role     Role   // default: Administrator
	Account  string // default: DefaultAccount. Its users share resources and the rate limit
	TOTPSeed string // base32. A user with a seed has MFA
	IDP      string // identity provider of the MFA. Default: DefaultIDP
}

// String keeps passwords and seeds out of logs and test output.
func (u User) String() string { return fmt.Sprintf("%s (%s, %s)", u.Email, u.Role, u.Account) }

// Format implements fmt.Formatter for every verb, so that none walks the fields.
func (u User) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, u.String()) }

// MarshalJSON implements json.Marshaler, for log encoders.
func (u User) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }

// user is a User and what the portal remembers of them.
type user struct {
	User
	mfa      bool
	lastStep int64 // the TOTP step of the last code accepted: a code counts once
}

func (p *Portal) addUser(u User) error {
	if u.Email == "" {
		return fmt.Errorf("user %q has no e-mail", u.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.ToLower(u.Email)
	if p.users[key] != nil {
		return fmt.Errorf("user %s is there twice", u.Email)
	}
	if u.TOTPSeed != "" && !validSeed(u.TOTPSeed) {
		return fmt.Errorf("user %s: the TOTP seed is not base32", u.Email)
	}
	orElse(&u.ID, p.newID("user"))
	orElse(&u.Role, RoleAdministrator)
	orElse(&u.Account, DefaultAccount)
	orElse(&u.IDP, DefaultIDP)
	if u.Password == "" {
		u.Password = secret(24)
	}
	p.users[key] = &user{User: u, mfa: u.TOTPSeed != ""}
	return nil
}

// Credentials are the e-mail and password of the portal's first user.
func (p *Portal) Credentials() (email, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[strings.ToLower(p.opts.Users[0].Email)]
	return u.Email, u.Password
}

type loginBody struct {
	Email    string `json:"email" portal:"required"`
	Password string `json:"password" portal:"required"`
}

type loginAnswer struct {
	Token string `json:"token"`
	User  struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		Role  Role   `json:"role"`
	} `json:"user"`
	MFARequired bool `json:"mfaRequired"`
}

// login answers POST /login.
func (p *Portal) login(c *call) (answer, *refusal) {
	var body loginBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[strings.ToLower(body.Email)]
	if u == nil || subtle.ConstantTimeCompare([]byte(u.Password), []byte(body.Password)) != 1 {
		return answer{}, refuse(p.opts.Shapes.CredentialsCode, "e-mail or password is wrong")
	}
	c.session = p.openSession(u, u.mfa, c.now())
	var out loginAnswer
	out.Token = p.sign(c.session)
	out.User.ID, out.User.Email, out.User.Role = u.ID, u.Email, u.Role
	out.MFARequired = u.mfa
	return answer{status: http.StatusOK, body: out}, nil
}

// anonymousAccount is the account that a call without a token counts against, known by an e-mail or a reset link.
func (p *Portal) anonymousAccount(c *call) string {
	var body struct {
		Email string `json:"email"`
	}
	_ = json.Unmarshal(c.body, &body) // a body that cannot be read names no user
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.resets[c.params["token"]]; r != nil {
		return r.user.Account
	}
	if u := p.users[strings.ToLower(body.Email)]; u != nil {
		return u.Account
	}
	return ""
}
