// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// Config names the portal, the user, and how to connect. It prints as base URL and e-mail only, for every verb and encoder.
type Config struct {
	// BaseURL of the portal's API, https only (specification, "Authentication", rule 9).
	BaseURL string
	// Email and Password of the portal user.
	Email, Password string
	// CABundle is PEM. If it is given, only its certificates are trusted. Empty: those of the system.
	CABundle []byte
	// TOTPSeed (base32) makes the second factor for an account with MFA. Empty: the account has none, or OTP asks.
	TOTPSeed string
	// OTP asks a person for the one-time code that the portal has just sent. Used when there is no seed.
	OTP func(context.Context) (string, error)

	// Owner is the user of a Pool's client, such as a namespace. A Pool bounds the clients of one owner. Empty: no owner.
	Owner string
	// Account names the portal account, which shares one rate limit between its users. Only Pool reads it, and only after a
	// login has worked (see doc.go). If tenants can set it, begin it with something that one tenant cannot take from another.
	// Empty: the portal user.
	Account string
	// RequestsPerMinute is the account's limit, for a portal that does not name it in every answer. 0: the standard tier, until
	// the portal names another. The portal's answers correct it in any case. Only Pool reads it.
	RequestsPerMinute int
	// Limiter of the account's rate limit, shared by all clients of the account. Nil: one of its own.
	Limiter *ratelimit.Limiter
	// Hosts decides which hosts may be connected to. Nil: all. A Transport of one's own is only checked for the name.
	Hosts *Hosts
	// Wait makes calls without a reservation wait for the rate limit, as a command-line tool wants. Otherwise they return an error for
	// which RetryAt says when to come back.
	Wait bool

	// Transport carries the requests. Nil: HTTPS with the timeouts of the specification.
	Transport http.RoundTripper
	// prove is called with each login that worked, and returns the limiter of its account. Set by a Pool.
	prove func(Login) *ratelimit.Limiter
	// UserAgent is sent with every request.
	UserAgent string
	// Observe is called after every request. It must not block.
	Observe func(Call)
	// ObserveShape is called with the portal's answer to a gap of the specification (conformance.Gaps), for reports. It must not
	// block.
	ObserveShape func(gap, shape string)
	// ObserveLogin is called with the result of every login, second factor included. Nil is a success. It must not block.
	ObserveLogin func(error)
}

// trimmed returns the configuration without the white space around values that can have none. What is piped into a Secret or read
// from a file often ends with a line break.
func (c Config) trimmed() Config {
	for _, value := range []*string{&c.BaseURL, &c.Email, &c.TOTPSeed, &c.Account} {
		*value = strings.TrimSpace(*value)
	}
	return c
}

// endpoint checks the configuration, which is trimmed, and gives the parsed base URL. Its errors name the field and never its value:
// a base URL may carry a password. A password may begin or end with spaces. It cannot end with a line break, which no form takes, and
// a portal may lock the user after some refused logins.
func (c Config) endpoint() (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
	switch {
	case err != nil:
		return nil, invalidInput("baseURL", "is not a URL")
	case base.Scheme != "https":
		return nil, invalidInput("baseURL", "must start with https://, the portal rejects anything else")
	case base.Hostname() == "":
		return nil, invalidInput("baseURL", "names no host")
	case base.User != nil:
		return nil, invalidInput("baseURL", "must not carry credentials")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, invalidInput("baseURL", "must not carry a query or fragment")
	case c.Email == "":
		return nil, invalidInput("email", "is missing")
	case c.Password == "":
		return nil, invalidInput("password", "is missing")
	case strings.TrimRight(c.Password, "\r\n") != c.Password:
		return nil, invalidInput("password", "ends with a line break, as echo and most editors write it. Write the password without it")
	case c.RequestsPerMinute < 0 || c.RequestsPerMinute > ratelimit.MaxLimit:
		return nil, invalidInput("requestsPerMinute", fmt.Sprintf("must be a number from 1 to %d", ratelimit.MaxLimit))
	}
	return base, c.Hosts.checkPortal(base)
}

// roots reads the CA bundle. Nil means the system's.
func (c Config) roots() (*x509.CertPool, error) {
	if len(strings.TrimSpace(string(c.CABundle))) == 0 {
		return nil, nil // crypto/tls takes a nil pool for the system's
	}
	pool, found := x509.NewCertPool(), false
	for block, rest := pem.Decode(c.CABundle); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, invalidInput("caBundle", "holds something that is not a certificate")
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return nil, invalidInput("caBundle", "holds no PEM certificate")
	}
	return pool, nil
}

// seed is the TOTP seed as the library wants it.
func (c Config) seed() (secret, error) {
	text := strings.ToUpper(strings.Join(strings.Fields(c.TOTPSeed), ""))
	if text == "" {
		return nil, nil // no seed is a valid configuration
	}
	if _, err := totp.GenerateCode(text, time.Unix(0, 0)); err != nil {
		return nil, invalidInput("totpSeed", "is not base32")
	}
	return conceal(text), nil
}

// String returns the portal's address and the user, and nothing else.
func (c Config) String() string { return "portal " + safeURL(c.BaseURL) + " as " + c.Email }

// Format implements fmt.Formatter for every verb and flag, so that no verb walks the fields.
func (c Config) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(c.String())) }

// MarshalJSON implements json.Marshaler, for log encoders.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// safeURL drops what a URL may carry besides scheme, host and path.
func safeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "?"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Address returns one spelling of a portal's base URL, or "" if it is none. Ids of one portal mean nothing at another.
func Address(baseURL string) string {
	base, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || base.Hostname() == "" {
		return ""
	}
	return strings.ToLower(base.Hostname()) + ":" + portOf(base) + strings.TrimRight(base.EscapedPath(), "/")
}

// Address is the client's portal.
func (c *Client) Address() string { return c.address }
