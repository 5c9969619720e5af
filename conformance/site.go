// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Options say which portal is checked, and what the checks may do there. The secrets of the users come from the environment.
type Options struct {
	URL        string         // base URL
	Email      string         // the portal user
	OtherEmail string         // a user of another account; "" if there is none
	CA         []byte         // PEM certificates of the only authorities to trust; nil for the system's
	Checks     *regexp.Regexp // matches the names of the checks to run
	Poll       time.Duration  // between two looks at a job

	Create  bool // checks may create things
	Exhaust bool // checks may use up the rate limit
	Tier    Tier

	// Parameters of what checks create, which no endpoint lists.
	Zone, ServiceOffering, SSHKeyPair string
	VPC                               string // name
	CIDR                              string // of networks
}

// Tier holds the limits of an account.
type Tier struct{ PerMinute, Burst, Workers int }

// Defaults returns the options of an account in the standard tier. They lack the portal and its user.
func Defaults() Options {
	return Options{
		Checks: regexp.MustCompile(""), Poll: 5 * time.Second, Tier: Tier{PerMinute: 300, Burst: 50, Workers: 50}, CIDR: "10.250.0.0/24",
	}
}

// site is a portal under test, with what the checks may do there.
type site struct {
	Options
	via   http.RoundTripper
	users map[role]*user

	virtual    bool // time is virtual
	neighbours bool // other clients use the account

	books   *emulator.Portal // the portal's records and faults; nil for a real portal
	options emulator.Options // of that portal
	made    map[string]*creation
	ledger  []*entry // created resources, to be deleted at the end
	kit     clientKit
	through func(http.RoundTripper) http.RoundTripper // wraps the transport to another portal; may be nil
	shapes  map[string]string                         // gap → the portal's shape
	version int                                       // index into usable(); the versions before it were refused
}

// role is a property of a user that a check needs.
type role string

// The roles. At a real portal one user may have several roles, and some roles may have no user.
const (
	anyone        role = "a user"
	administrator role = "an Administrator"
	ordinary      role = "a user who is no Administrator"
	withMFA       role = "a user with MFA"
	colleague     role = "another user of the same account"
	stranger      role = "a user of another account"
)

// user is a portal user whose secrets are never printed.
type user struct {
	email          string
	password, seed secret
	token          secret // a full-access token that checks share
	step           int64  // of the last one-time code, because each is valid once
}

// secret is a text that fmt cannot print. It is a function, because fmt may not be able to call its methods.
type secret func() string

func conceal(text string) secret {
	if text == "" {
		return nil
	}
	return func() string { return text }
}

// reveal returns the text, or "" for a nil secret.
func (s secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}

// hide removes the secrets of the site's users from a text.
func (s *site) hide(text string) string {
	for _, u := range s.users {
		for _, hidden := range []secret{u.password, u.seed, u.token} {
			if hidden != nil {
				text = strings.ReplaceAll(text, hidden.reveal(), "(secret)")
			}
		}
	}
	return text
}

// portalAt returns the base URL as the checks use it. They send the password there, so it must be HTTPS (specification, "Authentication",
// rule 9).
func portalAt(given string) (string, error) {
	base, err := url.Parse(strings.TrimSpace(given))
	if err != nil || base.Scheme != "https" || base.Hostname() == "" || base.User != nil {
		return "", errors.New("--url must begin with https://, and name a host without credentials. Nothing was sent")
	}
	return strings.TrimRight(base.String(), "/"), nil
}

// described returns the site that the options and the environment describe.
func described(o Options) (*site, error) {
	var err error
	if o.URL, err = portalAt(o.URL); err != nil {
		return nil, err
	}
	via, err := network(o.CA)
	if err != nil {
		return nil, err
	}
	main := &user{email: o.Email, password: conceal(os.Getenv("PORTAL_PASSWORD")), seed: conceal(os.Getenv("PORTAL_TOTP_SEED"))}
	if main.email == "" || main.password == nil {
		return nil, errors.New("a portal needs --email, and the password in PORTAL_PASSWORD")
	}
	s := &site{
		Options: o, via: via, users: map[role]*user{anyone: main}, made: map[string]*creation{}, shapes: map[string]string{},
		neighbours: true,
	}
	if o.OtherEmail != "" {
		s.users[stranger] = &user{email: o.OtherEmail, password: conceal(os.Getenv("PORTAL_OTHER_PASSWORD"))}
	}
	return s, nil
}

// network returns a TLS transport that trusts the given authorities, or the system's if ca is nil.
func network(ca []byte) (http.RoundTripper, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA file has no PEM certificate")
		}
	}
	return &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: time.Minute}, nil
}
